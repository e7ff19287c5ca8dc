package routing

import "bytes"

// maxPartHeader is the longest header block of a part that is read, in bytes; a
// form with a longer one takes no part.
const maxPartHeader = 16 << 10

// ParseMultipart reads body as multipart/form-data and reports whether it is a
// complete form; if not, f is as after Reset. Of its fields only model counts,
// wherever it stands; a file of that name is no field, and of several fields
// the last one counts. contentType is the value of the request's Content-Type.
//
// Cost: no allocation; parts are skipped with bytes.Index.
func (f *Facts) ParseMultipart(contentType, body []byte) bool {
	f.Reset()
	boundary, ok := f.boundary(contentType)
	if !ok {
		return false
	}
	f.body = body
	model, ok := formModel(body, boundary)
	if !ok {
		f.Reset()
		return false
	}
	f.kind, f.model = bodyForm, model
	return true
}

// formModel finds the last field model of a form. boundary is CR LF, two
// hyphens and the boundary.
func formModel(body, boundary []byte) (model jsonSpan, ok bool) {
	// The first boundary may stand at the very front, without its line break.
	i, last, ok := 0, false, false
	if bytes.HasPrefix(body, boundary[2:]) {
		i, last, ok = boundaryLine(body, len(boundary)-2)
	}
	if !ok {
		if _, i, last, ok = nextBoundary(body, 0, boundary); !ok {
			return jsonSpan{}, false
		}
	}
	for !last {
		isModel, data, ok := partHeader(body, i)
		if !ok {
			return jsonSpan{}, false
		}
		// The blank line's break is the boundary's where a part is empty.
		end, next, final, ok := nextBoundary(body, data-2, boundary)
		if !ok {
			return jsonSpan{}, false
		}
		if isModel {
			model = jsonSpan{data, max(data, end)}
		}
		i, last = next, final
	}
	return model, true
}

// nextBoundary finds the first boundary line from i on: where it starts, where
// what follows it starts, and whether it is the last one.
func nextBoundary(body []byte, i int, boundary []byte) (start, next int, last, ok bool) {
	for {
		found := bytes.Index(body[i:], boundary)
		if found < 0 {
			return 0, 0, false, false
		}
		start = i + found
		if next, last, ok = boundaryLine(body, start+len(boundary)); ok {
			return start, next, last, true
		}
		i = start + len(boundary)
	}
}

// boundaryLine reads the end of a boundary line from behind the boundary: two
// hyphens if it is the last one, then spaces and tabs, then CR LF or, behind the
// last one, the end of the body.
func boundaryLine(body []byte, i int) (next int, last, ok bool) {
	if bytes.HasPrefix(body[i:], []byte("--")) {
		last = true
		i += 2
	}
	for i < len(body) && (body[i] == ' ' || body[i] == '\t') {
		i++
	}
	if last && i == len(body) {
		return i, true, true
	}
	if !bytes.HasPrefix(body[i:], []byte("\r\n")) {
		return 0, false, false
	}
	return i + 2, last, true
}

// partHeader reads a part's header block at i: whether the part is the field
// model, and where its data starts.
func partHeader(body []byte, i int) (isModel bool, data int, ok bool) {
	limit := min(len(body), i+maxPartHeader)
	for {
		end := bytes.Index(body[i:limit], []byte("\r\n"))
		if end < 0 {
			return false, 0, false
		}
		line := body[i : i+end]
		i += end + 2
		if len(line) == 0 {
			return isModel, i, true
		}
		if name, value, found := bytes.Cut(line, []byte(":")); found && equalFoldASCII(name, "content-disposition") {
			isModel = isModelField(value)
		}
	}
}

// isModelField reports whether a Content-Disposition is that of the field model.
func isModelField(disposition []byte) bool {
	kind, p := paramsOf(disposition)
	if !equalFoldASCII(kind, "form-data") {
		return false
	}
	isModel := false
	for {
		name, value, ok := p.next()
		switch {
		case !ok:
			return isModel
		case equalFoldASCII(name, "name"):
			isModel = value.equal("model")
		case equalFoldASCII(name, "filename"), equalFoldASCII(name, "filename*"):
			return false
		}
	}
}

// boundary returns CR LF, two hyphens and the boundary that contentType names,
// in f's memory.
func (f *Facts) boundary(contentType []byte) (boundary []byte, ok bool) {
	kind, p := paramsOf(contentType)
	if !equalFoldASCII(kind, "multipart/form-data") {
		return nil, false
	}
	for {
		name, value, ok := p.next()
		if !ok {
			return nil, false
		}
		if equalFoldASCII(name, "boundary") {
			const front = "\r\n--"
			f.modelText = value.appendTo(append(f.modelText[:0], front...))
			return f.modelText, len(f.modelText) > len(front)
		}
	}
}
