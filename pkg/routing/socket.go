package routing

import "crypto/tls"

// Socket is one port of a Snapshot and the listeners that share it.
type Socket struct {
	Port uint16
	// TLS: all listeners of the port are HTTPS; else all are HTTP.
	TLS bool
	// Listeners are sorted by Key.
	Listeners []*CompiledListener

	hosts hostTable[*CompiledListener]
}

// Listener is the listener with the most specific hostname for host (lower-case,
// without port): exact, then the longest wildcard, then the one without a
// hostname; nil: none. It serves SNI and Host alike; a connection whose SNI and
// request whose Host give different listeners is misdirected (421).
// Cost: O(labels of host), no allocation.
func (k *Socket) Listener(host []byte) *CompiledListener {
	w := k.hosts.walk(host)
	if l := w.next(); l != nil {
		return *l
	}
	return nil
}

// CompiledListener is a Gateway listener with the rules that it serves.
type CompiledListener struct {
	Key      string // "namespace/gateway/listener"
	Gateway  string // "namespace/gateway"
	Hostname string // "" for every host
	Port     uint16
	TLS      bool
	// Certificates are parsed, with Leaf set, the default one first.
	Certificates []tls.Certificate
	// NeedsModel: some rule matches on X-Gateway-Model-Name, so the model must
	// be known before Match.
	NeedsModel bool

	tree *matchTree
	// matched holds a MatchedRule for each slot of tree.
	matched []MatchedRule
	aliases map[string][]byte
	digest  digest
}
