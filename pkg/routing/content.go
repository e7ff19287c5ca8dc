package routing

// The text of a content: a string is itself; of an array, the texts of its
// parts, trimmed and joined by one space. A part is a string, or an object with
// the first non-empty one of text, content and value that is a string; other
// parts (images, audio) have none.

// writeContent adds the text of the content at v to the open part of the hash
// and returns whether there is any.
func (f *Facts) writeContent(v jsonSpan) bool {
	switch f.kindOf(v) {
	case '"':
		t := f.inside(v)
		f.hash.writeText(t, f.scan.surrogates)
		return len(t) > 0
	case '[':
		return f.writeParts(v)
	}
	return false
}

func (f *Facts) writeParts(v jsonSpan) bool {
	found := false
	i, more := f.scan.first(v.start)
	for more {
		var t rawText
		if t, i = f.part(i); len(t) > 0 {
			if found {
				f.hash.writeString(" ")
			}
			found = true
			f.hash.writeText(t, f.scan.surrogates)
		}
		i, more = f.scan.next(i, ']')
	}
	return found
}

// normalizeContent puts the normalised text of the content at v into f.norm and
// returns whether there is any.
func (f *Facts) normalizeContent(v jsonSpan, limit int) bool {
	n := &f.norm
	n.reset(limit)
	switch f.kindOf(v) {
	case '"':
		n.add(f.inside(v))
	case '[':
		i, more := f.scan.first(v.start)
		for more {
			var t rawText
			t, i = f.part(i)
			if !n.add(t) {
				break
			}
			n.addBreak()
			i, more = f.scan.next(i, ']')
		}
	}
	return len(n.text()) > 0
}

// normalizeText is normalizeContent for a text.
func (f *Facts) normalizeText(t rawText, limit int) bool {
	f.norm.reset(limit)
	f.norm.add(t)
	return len(f.norm.text()) > 0
}

// part returns the trimmed text of the part at i and the position behind the
// part. The body is known to be valid.
func (f *Facts) part(i int) (t rawText, next int) {
	switch f.body[i] {
	case '"':
		next = f.scan.value(i, 0)
		return f.inside(jsonSpan{i, next}).trim(), next
	case '{':
		return f.partObject(i)
	}
	return nil, f.scan.value(i, 0)
}

func (f *Facts) partObject(i int) (t rawText, next int) {
	var texts [3]jsonSpan // text, content, value
	i, more := f.scan.first(i)
	for more {
		nameStart := i + 1
		nameEnd, start := f.scan.member(i)
		i = f.scan.value(start, 0)
		switch string(f.name(nameStart, nameEnd)) {
		case "text":
			texts[0] = jsonSpan{start, i}
		case "content":
			texts[1] = jsonSpan{start, i}
		case "value":
			texts[2] = jsonSpan{start, i}
		}
		i, more = f.scan.next(i, '}')
	}
	for _, v := range texts {
		if f.kindOf(v) != '"' {
			continue
		}
		if t = f.inside(v).trim(); len(t) > 0 {
			break
		}
	}
	return t, i
}
