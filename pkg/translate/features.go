package translate

import (
	"slices"

	gwapiv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// features are the Gateway API features that Gateways of our classes support:
// the one list that GatewayClass statuses, conformance runs and documents use.
var features = []gwapiv1.FeatureName{
	"Gateway",
	"GatewayAddressEmpty",
	"GatewayHTTPListenerIsolation",
	"GatewayHTTPSListenerDetectMisdirectedRequests",
	"GatewayInfrastructure",
	"GatewayPort8080",
	"GatewayRouteHostnameIntersectionPrecedence",
	"GatewayStaticAddresses",
	"HTTPRoute",
	"HTTPRoute303RedirectStatusCode",
	"HTTPRoute307RedirectStatusCode",
	"HTTPRoute308RedirectStatusCode",
	"HTTPRouteBackendProtocolWebSocket",
	"HTTPRouteBackendRequestHeaderModification",
	"HTTPRouteBackendTimeout",
	"HTTPRouteBackendURLRewrite",
	"HTTPRouteCORS",
	"HTTPRouteDestinationPortMatching",
	"HTTPRouteHostRewrite",
	"HTTPRouteMethodMatching",
	"HTTPRouteNamedRouteRule",
	"HTTPRouteParentRefPort",
	"HTTPRoutePathRedirect",
	"HTTPRoutePathRewrite",
	"HTTPRoutePortRedirect",
	"HTTPRouteQueryParamMatching",
	"HTTPRouteRequestMirror",
	"HTTPRouteRequestMultipleMirrors",
	"HTTPRouteRequestPercentageMirror",
	"HTTPRouteRequestTimeout",
	"HTTPRouteResponseHeaderModification",
	"HTTPRouteRetryCodes",
	"HTTPRouteRetryConnectionError",
	"HTTPRouteSchemeRedirect",
	"ReferenceGrant",
}

// Features are the names of the Gateway API features that are supported,
// sorted.
func Features() []string {
	names := make([]string, len(features))
	for i, f := range features {
		names[i] = string(f)
	}
	slices.Sort(names)
	return names
}

func supportedFeatures() []gwapiv1.SupportedFeature {
	names := Features()
	list := make([]gwapiv1.SupportedFeature, len(names))
	for i, n := range names {
		list[i] = gwapiv1.SupportedFeature{Name: gwapiv1.FeatureName(n)}
	}
	return list
}
