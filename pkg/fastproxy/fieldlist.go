package fastproxy

// fieldList is a list of field lines in the order of the message. Lines that are
// removed keep their memory behind the end of the list for the next ones, so
// that a header that is used again does not allocate.
type fieldList []headerField

// index is the position of the first line of that name, -1 where there is none.
// Names are compared without case.
func (l *fieldList) index(name string) int {
	for i := range *l {
		if sameName((*l)[i].key, name) {
			return i
		}
	}
	return -1
}

// count is the number of lines of that name, last the position of the last one.
func (l *fieldList) count(name string) (n, last int) {
	last = -1
	for i := range *l {
		if sameName((*l)[i].key, name) {
			n, last = n+1, i
		}
	}
	return n, last
}

// removeLines deletes all lines of that name from position from on. The others
// keep their order.
func removeLines[N []byte | string](l *fieldList, name N, from int) {
	s, kept := *l, from
	for i := from; i < len(s); i++ {
		if sameName(s[i].key, name) {
			continue
		}
		if i != kept {
			s[i], s[kept] = s[kept], s[i]
		}
		kept++
	}
	if kept < len(s) {
		*l = s[:kept]
	}
}

// removeHop deletes the lines of one hop's fields, but for a TE that announces
// trailers where keepTE is true.
func (l *fieldList) removeHop(keepTE bool) {
	s, kept := *l, 0
	for i := range s {
		if isHopField(s[i].key) && (!keepTE || !reduceTE(&s[i])) {
			continue
		}
		if i != kept {
			s[i], s[kept] = s[kept], s[i]
		}
		kept++
	}
	*l = s[:kept]
}

// take deletes the line at i and returns it; it is valid until a line is added.
func (l *fieldList) take(i int) headerField {
	s := *l
	line := s[i]
	copy(s[i:], s[i+1:])
	s[len(s)-1] = line
	*l = s[:len(s)-1]
	return line
}

// add appends a line of that name with an empty value and returns it; its key is
// in canonical form. The pointer is valid until the list changes.
func (l *fieldList) add(name string) *headerField { return addLine(l, name) }

// addLine is add for names of either type.
func addLine[N []byte | string](l *fieldList, name N) *headerField {
	s := *l
	if len(s) < cap(s) {
		s = s[:len(s)+1]
	} else {
		s = append(s, headerField{})
	}
	*l = s
	f := &s[len(s)-1]
	f.key = append(f.key[:0], name...)
	canonicalize(f.key)
	f.value = f.value[:0]
	f.noValue = false
	return f
}

// set makes value the only value of that name, at the place of its first line.
func (l *fieldList) set(name, value string) {
	i := l.index(name)
	if i < 0 {
		f := l.add(name)
		f.value = appendValue(f.value, value)
		return
	}
	removeLines(l, name, i+1)
	f := &(*l)[i]
	f.value = appendValue(f.value[:0], value)
}

// append adds value to the values of that name: joined with separator where it
// has one line, as a further line where it has none or several.
func (l *fieldList) append(name, separator, value string) {
	n, i := l.count(name)
	if n != 1 {
		f := l.add(name)
		f.value = appendValue(f.value, value)
		return
	}
	f := &(*l)[i]
	if len(f.value) > 0 {
		f.value = append(f.value, separator...)
	}
	f.value = appendValue(f.value, value)
}

// appendValue appends v with line ends made harmless.
func appendValue(dst []byte, v string) []byte {
	n := len(dst)
	dst = append(dst, v...)
	for i := n; i < len(dst); i++ {
		if dst[i] == '\r' || dst[i] == '\n' {
			dst[i] = ' '
		}
	}
	return dst
}

// canonicalize gives a field name the form in which fasthttp looks names up:
// the first letter and every letter after a hyphen in upper case.
func canonicalize(b []byte) {
	upper := true
	for i, c := range b {
		switch {
		case upper && 'a' <= c && c <= 'z':
			b[i] = c - 'a' + 'A'
		case !upper && 'A' <= c && c <= 'Z':
			b[i] = c - 'A' + 'a'
		}
		upper = c == '-'
	}
}

// sameName compares field names: ASCII text, without case.
func sameName[A, B []byte | string](a A, b B) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range len(a) {
		if x, y := a[i], b[i]; x != y && (x|0x20 != y|0x20 || x|0x20 < 'a' || x|0x20 > 'z') {
			return false
		}
	}
	return true
}
