package routing

import (
	"crypto/sha256"
	"encoding/binary"
)

// digest identifies the content of a resource. Equal digests stand for equal
// resources, so what was compiled from one serves for the other.
type digest [sha256.Size]byte

// encoder writes plain data so that different values give different bytes:
// every string and list has its length in front.
type encoder struct{ b []byte }

func (e *encoder) sum() digest { return sha256.Sum256(e.b) }

func (e *encoder) reset() { e.b = e.b[:0] }

func (e *encoder) int(v int64) { e.b = binary.AppendVarint(e.b, v) }

func (e *encoder) bool(v bool) {
	if v {
		e.b = append(e.b, 1)
	} else {
		e.b = append(e.b, 0)
	}
}

func (e *encoder) str(s string) {
	e.b = binary.AppendUvarint(e.b, uint64(len(s)))
	e.b = append(e.b, s...)
}

func (e *encoder) bytes(s []byte) {
	e.b = binary.AppendUvarint(e.b, uint64(len(s)))
	e.b = append(e.b, s...)
}

func (e *encoder) strs(list []string) {
	e.int(int64(len(list)))
	for _, s := range list {
		e.str(s)
	}
}

func (e *encoder) digest(d digest) { e.b = append(e.b, d[:]...) }

func (e *encoder) listener(l *Listener) {
	e.str(l.Key)
	e.str(l.Gateway)
	e.int(int64(l.Port))
	e.str(string(l.Protocol))
	e.str(l.Hostname)
	e.strs(l.Certificates)
}

func (e *encoder) certificate(c *Certificate) {
	e.str(c.Key)
	e.bytes(c.CertPEM)
	e.bytes(c.KeyPEM)
}

func (e *encoder) route(r *Route) {
	e.str(r.Key)
	e.int(r.Created)
	e.int(int64(len(r.Listeners)))
	for i := range r.Listeners {
		e.str(r.Listeners[i].Listener)
		e.strs(r.Listeners[i].Hostnames)
	}
	e.int(int64(len(r.Rules)))
	for i := range r.Rules {
		e.rule(&r.Rules[i])
	}
}

func (e *encoder) rule(r *Rule) {
	e.str(r.Name)
	e.int(int64(len(r.Matches)))
	for i := range r.Matches {
		m := &r.Matches[i]
		e.str(string(m.PathType))
		e.str(m.Path)
		e.str(m.Method)
		e.valueMatches(m.Headers)
		e.valueMatches(m.Query)
	}
	e.filters(r.Filters)
	e.int(int64(len(r.Backends)))
	for i := range r.Backends {
		b := &r.Backends[i]
		e.str(b.Backend)
		e.int(int64(b.Weight))
		e.filters(b.Filters)
	}
	e.int(int64(r.RequestTimeout))
	e.int(int64(r.BackendTimeout))
	e.bool(r.Retry != nil)
	if r.Retry != nil {
		e.int(int64(r.Retry.Attempts))
		e.int(int64(len(r.Retry.Codes)))
		for _, c := range r.Retry.Codes {
			e.int(int64(c))
		}
		e.int(int64(r.Retry.Backoff))
	}
	e.int(int64(r.Fault))
}

func (e *encoder) valueMatches(list []ValueMatch) {
	e.int(int64(len(list)))
	for i := range list {
		e.str(string(list[i].Type))
		e.str(list[i].Name)
		e.str(list[i].Value)
	}
}

func (e *encoder) filters(list []Filter) {
	e.int(int64(len(list)))
	for i := range list {
		f := &list[i]
		e.headerFilter(f.RequestHeaders)
		e.headerFilter(f.ResponseHeaders)
		e.bool(f.Redirect != nil)
		if r := f.Redirect; r != nil {
			e.str(r.Scheme)
			e.str(r.Hostname)
			e.pathRewrite(r.Path)
			e.int(int64(r.Port))
			e.int(int64(r.Status))
		}
		e.bool(f.Rewrite != nil)
		if r := f.Rewrite; r != nil {
			e.str(r.Hostname)
			e.pathRewrite(r.Path)
		}
		e.bool(f.Mirror != nil)
		if m := f.Mirror; m != nil {
			e.str(m.Backend)
			e.int(int64(m.Numerator))
			e.int(int64(m.Denominator))
		}
		e.bool(f.CORS != nil)
		if c := f.CORS; c != nil {
			e.strs(c.AllowOrigins)
			e.strs(c.AllowMethods)
			e.strs(c.AllowHeaders)
			e.strs(c.ExposeHeaders)
			e.bool(c.AllowCredentials)
			e.int(int64(c.MaxAge))
		}
	}
}

func (e *encoder) headerFilter(f *HeaderFilter) {
	e.bool(f != nil)
	if f == nil {
		return
	}
	for _, list := range [2][]Header{f.Set, f.Add} {
		e.int(int64(len(list)))
		for i := range list {
			e.str(list[i].Name)
			e.str(list[i].Value)
		}
	}
	e.strs(f.Remove)
}

func (e *encoder) pathRewrite(p *PathRewrite) {
	e.bool(p != nil)
	if p != nil {
		e.str(string(p.Type))
		e.str(p.Value)
	}
}

func (e *encoder) backend(b *Backend) {
	e.str(b.Key)
	e.str(string(b.Kind))
	e.str(b.Namespace)
	e.str(b.Name)
	e.str(string(b.Strategy))
	e.int(int64(b.Priority))
	e.strs(b.Members)
	e.str(b.Endpoints)
	e.str(b.Service)
	e.str(b.ServedModelName)
	e.strs(b.Aliases)
	e.bool(b.DecodeRequests)
	e.str(string(b.Phase))
	e.bool(b.Serverless != nil)
	if s := b.Serverless; s != nil {
		e.int(int64(s.ColdStartTimeout))
		e.strs(s.WakeMethods)
	}
}

func (e *encoder) endpoints(l *EndpointList) {
	e.str(l.Key)
	e.int(int64(len(l.Endpoints)))
	for i := range l.Endpoints {
		e.str(l.Endpoints[i].Address)
		e.str(l.Endpoints[i].UID)
		e.str(string(l.Endpoints[i].State))
	}
}
