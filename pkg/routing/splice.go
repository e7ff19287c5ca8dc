package routing

// AppendModelSplice appends body with its model replaced by served.
func AppendModelSplice(dst, body []byte, f *Facts, served string) []byte { return append(dst, body...) }

// AppendModelReplacement appends the bytes that take the place of ModelSpan.
func AppendModelReplacement(dst []byte, f *Facts, served string) []byte {
	return append(dst, served...)
}
