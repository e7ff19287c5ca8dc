package translate

import (
	"fmt"

	gwapiv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// findConflicts marks the listeners of one Gateway that are not distinct. Of
// those that conflict none wins (Gateway API, "Handling indistinct Listeners").
// Listeners of unsupported protocols take no port and conflict with nothing.
func findConflicts(listeners []*listenerState) {
	for i, l := range listeners {
		for j, other := range listeners {
			if i == j || l.conflict != nil || l.spec.Port != other.spec.Port {
				continue
			}
			if isUnsupportedProtocol(l) || isUnsupportedProtocol(other) {
				continue
			}
			l.conflict = conflictBetween(l, other)
		}
	}
}

func isUnsupportedProtocol(l *listenerState) bool {
	return len(protocolKinds[l.spec.Protocol]) == 0
}

// conflictBetween says why two listeners on one port are not distinct, seen
// from l; nil where they are.
func conflictBetween(l, other *listenerState) *finding {
	if l.spec.Protocol != other.spec.Protocol {
		return &finding{
			reason: string(gwapiv1.ListenerReasonProtocolConflict),
			field:  l.field,
			message: fmt.Sprintf("port %d is %s here and %s on listener %s: give one of them another port",
				l.spec.Port, l.spec.Protocol, other.spec.Protocol, other.spec.Name),
		}
	}
	if l.hostname != other.hostname {
		return nil
	}
	return &finding{
		reason: string(gwapiv1.ListenerReasonHostnameConflict),
		field:  l.field,
		message: fmt.Sprintf("listener %s has the same port %d and hostname %q: change one of them",
			other.spec.Name, l.spec.Port, l.hostname),
	}
}

// sharePorts gives each port to the first Gateway, by age, that has an accepted
// listener on it, where all Gateways are served on one address.
func sharePorts(byAge []*gatewayState) {
	owner := map[gwapiv1.PortNumber]*gatewayState{}
	for _, g := range byAge {
		if g.refused != nil {
			continue
		}
		for _, l := range g.listeners {
			if !l.accepted() {
				continue
			}
			first := owner[l.spec.Port]
			if first == nil {
				owner[l.spec.Port] = g
				continue
			}
			if first != g {
				l.refused = &finding{
					reason: string(gwapiv1.ListenerReasonPortUnavailable),
					field:  l.field + ".port",
					message: fmt.Sprintf("port %d belongs to Gateway %s, and both are served on one address: choose another port, or move the listener into that Gateway",
						l.spec.Port, first.name),
				}
			}
		}
	}
}
