package routing

// Facts is what one pass over a request body found.
type Facts struct{ body []byte }

func (f *Facts) Reset()                                       { *f = Facts{} }
func (f *Facts) ParseJSON(body []byte, o *KeyOptions) bool    { f.Reset(); return false }
func (f *Facts) ParseMultipart(contentType, body []byte) bool { f.Reset(); return false }
func (f *Facts) JSON() bool                                   { return false }
func (f *Facts) Model() (name []byte, ok bool)                { return nil, false }
func (f *Facts) ModelSpan() (start, end int, ok bool)         { return 0, 0, false }
