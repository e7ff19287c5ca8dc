package provision

import (
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"flexinfer.ai/gateway/pkg/api/v1alpha2"
)

// Paths in gateway pods, and the flags of the gateway that name them.
const (
	trustDirectory    = "/var/run/flexinfer/trust"
	tokenDirectory    = "/var/run/flexinfer/token" //nolint:gosec // a directory, no credential
	snapshotDirectory = "/var/run/flexinfer/snapshot"

	caFile       = "ca.crt"
	tokenFile    = "token"
	snapshotFile = "snapshot"
)

// arguments are the gateway's command line, flags that the parameters do not set
// left out.
func arguments(g Gateway, s Settings, limits corev1.ResourceList) []string {
	var a argumentList
	a.add("controller", s.Controller)
	a.add("controller-ca", trustDirectory+"/"+caFile)
	a.add("token", tokenDirectory+"/"+tokenFile)
	a.add("snapshot", snapshotDirectory+"/"+snapshotFile)
	a.add("admin", fmt.Sprintf(":%d", adminPort(g.Ports)))

	p := g.Parameters.Proxy
	if p == nil {
		p = &v1alpha2.ProxyParameters{}
	}
	a.addLog(or(p.Log, v1alpha2.LogParameters{}))
	a.addRouting(or(p.Routing, v1alpha2.RoutingParameters{}))
	number(&a, "max-queue-size", p.MaxQueueSize)
	a.duration("queue-timeout", p.QueueTimeout)
	a.duration("cold-start-timeout", p.ColdStartTimeout)
	a.duration("graceful-shutdown-timeout", p.GracefulShutdownTimeout)
	a.duration("shutdown-drain-delay", p.ShutdownDrainDelay)
	a.addLimits(or(p.Limits, v1alpha2.LimitParameters{}), limits)
	a.addTimeouts(or(p.Timeouts, v1alpha2.TimeoutParameters{}))
	return a
}

type argumentList []string

func (a *argumentList) add(flag, value string) {
	*a = append(*a, "--"+flag+"="+value)
}

func number[T int32 | int64](a *argumentList, flag string, value *T) {
	if value != nil {
		a.add(flag, strconv.FormatInt(int64(*value), 10))
	}
}

func (a *argumentList) duration(flag string, value *v1alpha2.Duration) {
	if value != nil {
		a.add(flag, string(*value))
	}
}

func (a *argumentList) addLog(l v1alpha2.LogParameters) {
	a.add("log-format", or(l.Format, "json"))
	if l.Level != nil {
		a.add("log-level", *l.Level)
	}
	if or(l.Access, false) {
		a.add("access-log", "true")
	}
}

func (a *argumentList) addRouting(r v1alpha2.RoutingParameters) {
	number(a, "routing-explicit-key-max-length", r.ExplicitKeyMaxLength)
	number(a, "routing-system-segment-max-length", r.SystemSegmentMaxLength)
	number(a, "routing-document-segment-max-length", r.DocumentSegmentMaxLength)
	if r.SessionHeaders != nil {
		names := make([]string, len(*r.SessionHeaders))
		for i, h := range *r.SessionHeaders {
			names[i] = string(h)
		}
		a.add("routing-session-headers", strings.Join(names, ","))
	}
	if r.LabelGroupMode != nil {
		a.add("label-group-routing", string(*r.LabelGroupMode))
	}
	a.duration("least-loaded-reservation-ttl", r.LeastLoadedReservationTTL)
	number(a, "routing-virtual-nodes", r.VirtualNodes)
	number(a, "routing-key-cardinality-limit", r.KeyCardinalityLimit)
}

// addLimits sets the gateway's limits. Bodies that are read whole may together
// take a third of the memory limit: each may be held a second time while it is
// decoded, and the rest is everything else's.
func (a *argumentList) addLimits(l v1alpha2.LimitParameters, limits corev1.ResourceList) {
	buffered := l.BufferedBytes
	if memory := limits[corev1.ResourceMemory]; buffered == nil && memory.Value() > 0 {
		buffered = new(max(memory.Value()/3, 1))
	}
	number(a, "max-header-bytes", l.HeaderBytes)
	number(a, "max-body-bytes", l.BodyBytes)
	number(a, "max-buffered-bytes", buffered)
	number(a, "max-connections", l.Connections)
	a.duration("max-connection-age", l.ConnectionAge)
	number(a, "max-endpoint-connections", l.EndpointConnections)
	number(a, "max-mirrors", l.Mirrors)
}

func (a *argumentList) addTimeouts(t v1alpha2.TimeoutParameters) {
	a.duration("header-timeout", t.Header)
	a.duration("body-timeout", t.Body)
	a.duration("client-idle-timeout", t.ClientIdle)
	a.duration("write-stall-timeout", t.WriteStall)
	a.duration("handshake-timeout", t.Handshake)
	a.duration("connect-timeout", t.Connect)
	a.duration("first-byte-timeout", t.FirstByte)
	a.duration("idle-timeout", t.Idle)
	a.duration("pool-idle-timeout", t.PoolIdle)
	a.duration("tunnel-timeout", t.Tunnel)
}

// preferredAdminPort serves metrics and health.
const preferredAdminPort = 19090

// adminPort is the port of metrics and health: the preferred one, or the next
// that no listener has. Ports are ascending.
func adminPort(listeners []int32) int32 {
	port := int32(preferredAdminPort)
	for _, taken := range listeners {
		if taken == port {
			port++
		}
	}
	return port
}
