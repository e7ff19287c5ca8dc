package routing

// HeaderModelName is the field that carries the body's model while rules are
// matched. Rules that name it, in any spelling, read Request.Model instead of
// the client's header.
const HeaderModelName = "X-Gateway-Model-Name"

// Request is what Match reads of a request. The slices are borrowed.
type Request struct {
	Method []byte
	Host   []byte // lower-case, without port
	Path   []byte // canonical, without query; begins with "/"
	Query  []byte // raw, without "?"
	// Headers answers for every field but X-Gateway-Model-Name.
	Headers Headers
	// Model is the value of X-Gateway-Model-Name, after ResolveModel; nil: none.
	Model []byte
}

// MatchedRule is a rule and how the request's path came to it.
type MatchedRule struct {
	Rule *CompiledRule
	// Prefix is what ReplacePrefixMatch replaces: the matched path prefix
	// without a trailing slash, "" for "/" and for paths that were not matched
	// by prefix. Request.Path begins with it, and what follows is empty or
	// begins with "/".
	Prefix string
}
