package routing

import (
	"bytes"
	"io"
	"math/rand/v2"
	"mime/multipart"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

const audioFormType = "multipart/form-data; boundary=------------------------d74496d66958873e"

// audioForm returns a form as speech clients send it: size bytes of binary data
// in front of the model.
func audioForm(size int) []byte {
	r := rand.New(rand.NewPCG(1, 2))
	data := make([]byte, size)
	for i := range data {
		data[i] = byte(r.Uint32())
	}
	var b bytes.Buffer
	const boundary = "--------------------------d74496d66958873e"
	b.WriteString(boundary + "\r\nContent-Disposition: form-data; name=\"file\"; filename=\"speech.wav\"\r\nContent-Type: audio/wav\r\n\r\n")
	b.Write(data)
	b.WriteString("\r\n" + boundary + "\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nwhisper-large\r\n" + boundary + "--\r\n")
	return b.Bytes()
}

func TestParseMultipart(t *testing.T) {
	f := func(contentType, body, want string, wantForm, wantModel bool) {
		t.Helper()
		var facts Facts
		if got := facts.ParseMultipart([]byte(contentType), []byte(body)); got != wantForm {
			t.Errorf("ParseMultipart(%q, %q) = %v, want %v", contentType, body, got, wantForm)
		}
		name, ok := facts.Model()
		if string(name) != want || ok != wantModel {
			t.Errorf("ParseMultipart(%q, %q): model %q, %v, want %q, %v", contentType, body, name, ok, want, wantModel)
		}
		if facts.JSON() {
			t.Errorf("ParseMultipart(%q, %q): a form says it is JSON", contentType, body)
		}
	}
	has := func(contentType, body, want string) { t.Helper(); f(contentType, body, want, true, true) }
	none := func(contentType, body string) { t.Helper(); f(contentType, body, "", true, false) }
	broken := func(contentType, body string) { t.Helper(); f(contentType, body, "", false, false) }
	const (
		plain = "multipart/form-data; boundary=b"
		model = "Content-Disposition: form-data; name=\"model\"\r\n\r\n"
		other = "Content-Disposition: form-data; name=\"n\"\r\n\r\n"
	)

	has(plain, "--b\r\n"+model+"m1\r\n--b--\r\n", "m1")
	has(plain, "--b\r\n"+other+"x\r\n--b\r\n"+model+"m1\r\n--b--", "m1")
	has(plain, "preamble\r\n--b \t\r\n"+model+"m1\r\n--b--  \r\nepilogue", "m1")
	has(plain, "--b\r\n"+model+"m1\r\n--b\r\n"+model+"m2\r\n--b--\r\n", "m2") // the last one counts
	has(plain, "--b\r\n"+model+"\r\n--b--\r\n", "")
	has(plain, "--b\r\n"+model+"--b--\r\n", "") // empty, without a line break of its own
	has(plain, "--b\r\n"+model+"a\r\nb\r\n--bb\r\n--c\r\n--b--\r\n", "a\r\nb\r\n--bb\r\n--c")
	has(plain, "--b\r\ncontent-disposition:form-data;name=model\r\nContent-Type: text/plain\r\n\r\nm1\r\n--b--\r\n", "m1")
	has(plain, "--b\r\nContent-Disposition: form-data; name=\"mo\\del\"\r\n\r\nm1\r\n--b--\r\n", "m1")

	has(`Multipart/Form-Data; charset=utf-8; Boundary="b"`, "--b\r\n"+model+"m1\r\n--b--\r\n", "m1")
	has(`multipart/form-data; boundary="a \"b\""; x=y`, "--a \"b\"\r\n"+model+"m1\r\n--a \"b\"--\r\n", "m1")

	none(plain, "--b--\r\n")
	none(plain, "--b\r\n"+other+"model\r\n--b--\r\n")
	none(plain, "--b\r\nContent-Disposition: form-data; name=\"Model\"\r\n\r\nm1\r\n--b--\r\n")
	none(plain, "--b\r\nContent-Disposition: form-data; name=\"model\"; filename=\"m\"\r\n\r\nm1\r\n--b--\r\n")
	none(plain, "--b\r\nContent-Disposition: form-data; filename*=UTF-8''m; name=\"model\"\r\n\r\nm1\r\n--b--\r\n")
	none(plain, "--b\r\nContent-Disposition: attachment; name=\"model\"\r\n\r\nm1\r\n--b--\r\n")
	none(plain, "--b\r\n\r\nm1\r\n--b--\r\n")
	none(plain, "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"f\"\r\n\r\n"+
		"--c\r\n"+model+"m1\r\n--c--\r\n--b--\r\n") // a form inside a file

	broken(plain, "")
	broken(plain, "--b\r\n"+model+"m1\r\n--b\r\n")
	broken(plain, "--b\r\n"+model+"m1\r\n--b-")
	broken(plain, "--b\r\n"+model+"m1")
	broken(plain, "--b\r\nContent-Disposition: form-data; name=\"model\"")
	broken(plain, "--b\n"+model+"m1\n--b--\n")
	broken(plain, "--b\r\nX: "+strings.Repeat("x", maxPartHeader)+"\r\n\r\n\r\n--b--\r\n")
	broken("multipart/form-data", "--b\r\n"+model+"m1\r\n--b--\r\n")
	broken("multipart/form-data; boundary=", "--\r\n"+model+"m1\r\n----\r\n")
	broken(`multipart/form-data; boundary="b`, "--b\r\n"+model+"m1\r\n--b--\r\n")
	broken("multipart/mixed; boundary=b", "--b\r\n"+model+"m1\r\n--b--\r\n")
	broken("", "--b\r\n"+model+"m1\r\n--b--\r\n")
}

// TestParseMultipartBehindFile finds the model behind data of some size.
func TestParseMultipartBehindFile(t *testing.T) {
	var f Facts
	body := audioForm(3 << 20)
	if !f.ParseMultipart([]byte(audioFormType), body) {
		t.Fatal("the form is valid")
	}
	if name, ok := f.Model(); !ok || string(name) != "whisper-large" {
		t.Fatalf("model %q, %v", name, ok)
	}
}

// TestParseMultipartAsWritten reads forms written by mime/multipart, as it does
// itself.
func TestParseMultipartAsWritten(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	m := &bodyMaker{Rand: rand.New(rand.NewPCG(seed, 0))}
	var f Facts
	found := 0
	for range randomBodies / 20 {
		contentType, body := m.form()
		want, wantOK := readForm(t, contentType, body)
		if !f.ParseMultipart([]byte(contentType), body) {
			t.Fatalf("ParseMultipart(%q, %q) = false", contentType, body)
		}
		name, ok := f.Model()
		if ok != wantOK || string(name) != want {
			t.Fatalf("ParseMultipart(%q, %q): model %q, %v, want %q, %v", contentType, body, name, ok, want, wantOK)
		}
		if ok {
			found++
		}
	}
	if found < randomBodies/400 { // about four times as many are expected
		t.Errorf("only %d forms had a model", found)
	}
}

// form writes a random form.
func (m *bodyMaker) form() (contentType string, body []byte) {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	boundary := oneOf(m, "b", "----WebKitFormBoundary7MA4YWxkTrZu0gW", "a b", "x/y:z=?")
	if err := w.SetBoundary(boundary); err != nil {
		panic("BUG: " + err.Error())
	}
	for range m.IntN(5) {
		var part io.Writer
		var err error
		name := oneOf(m, "model", "file", "prompt", "mo\"del", "Model")
		if m.chance(4) {
			part, err = w.CreateFormFile(name, oneOf(m, "a.wav", `b".wav`))
		} else {
			part, err = w.CreateFormField(name)
		}
		if err != nil {
			panic("BUG: " + err.Error())
		}
		for range m.IntN(4) {
			_, _ = io.WriteString(part, oneOf(m, "whisper", "\r\n", "\n", "--", "-"+boundary, "\x00\xff", " ", "\r"))
		}
	}
	_ = w.Close()
	return w.FormDataContentType(), b.Bytes()
}

// readForm reads the last field model with mime/multipart.
func readForm(t *testing.T, contentType string, body []byte) (model string, ok bool) {
	boundary := regexp.MustCompile(`boundary="?([^"]*)"?`).FindStringSubmatch(contentType)[1]
	r := multipart.NewReader(bytes.NewReader(body), boundary)
	for {
		part, err := r.NextRawPart()
		if err == io.EOF {
			return model, ok
		}
		if err != nil {
			t.Fatalf("mime/multipart reads %q: %v", body, err)
		}
		data, err := io.ReadAll(part)
		if err != nil {
			t.Fatalf("mime/multipart reads %q: %v", body, err)
		}
		if part.FormName() == "model" && part.FileName() == "" {
			model, ok = string(data), true
		}
	}
}

var (
	oracleParams = regexp.MustCompile(`(?s)^[; \t]*([^=]*)=("(?:[^"\\]|\\.)*"|[^;"][^;]*|$|;)`)
	oracleQuoted = regexp.MustCompile(`(?s)\\(.)`)
)

// oracleMedia splits a field value into its kind and parameters.
func oracleMedia(v string) (kind string, params [][2]string) {
	kind, rest, _ := strings.Cut(v, ";")
	if len(kind) < len(v) {
		rest = v[len(kind):]
	}
	for {
		m := oracleParams.FindStringSubmatch(rest)
		if m == nil {
			return strings.ToLower(strings.Trim(kind, " \t")), params
		}
		value := m[2]
		switch {
		case value == ";":
			value = ""
		case strings.HasPrefix(value, `"`):
			value = oracleQuoted.ReplaceAllString(value[1:len(value)-1], "$1")
		default:
			value = strings.Trim(value, " \t")
		}
		params = append(params, [2]string{strings.ToLower(strings.Trim(m[1], " \t")), value})
		rest = rest[len(m[0]):]
	}
}

// oracleForm is formModel on regular expressions.
func oracleForm(contentType string, body []byte) (start, end int, hasModel, ok bool) {
	kind, params := oracleMedia(contentType)
	at := slices.IndexFunc(params, func(p [2]string) bool { return p[0] == "boundary" })
	if kind != "multipart/form-data" || at < 0 || params[at][1] == "" {
		return 0, 0, false, false
	}
	quoted := regexpBytes("--" + params[at][1])
	line := regexp.MustCompile(`(?s:\r\n` + quoted + `(?:(--)[ \t]*(?:\r\n|\z)|[ \t]*\r\n))`)
	text := asASCII(append([]byte("\r\n"), body...)) // so that the first line is like the others
	m := line.FindStringSubmatchIndex(text)
	for m != nil {
		if m[2] >= 0 {
			return start, end, hasModel, true
		}
		header := regexp.MustCompile(`(?s)^.*?\r\n`)
		i, isModel := m[1], false
		for {
			h := header.FindString(text[i:])
			if h == "" || i+len(h)-m[1] > maxPartHeader {
				return 0, 0, false, false
			}
			i += len(h)
			if h == "\r\n" {
				break
			}
			name, value, found := strings.Cut(strings.TrimSuffix(h, "\r\n"), ":")
			if found && strings.EqualFold(name, "content-disposition") && len(name) == len("content-disposition") {
				isModel = oracleModelField(value)
			}
		}
		next := line.FindStringSubmatchIndex(text[i-2:])
		if next == nil {
			return 0, 0, false, false
		}
		for j := range next {
			if next[j] >= 0 {
				next[j] += i - 2
			}
		}
		if isModel {
			start, end, hasModel = i-2, max(i, next[0])-2, true
		}
		m = next
	}
	return 0, 0, false, false
}

func oracleModelField(disposition string) bool {
	kind, params := oracleMedia(disposition)
	name := ""
	for _, p := range params {
		switch p[0] {
		case "name":
			name = p[1]
		case "filename", "filename*":
			return false
		}
	}
	return kind == "form-data" && name == "model"
}

// asASCII replaces all other bytes, so that a regular expression matches bytes.
func asASCII(b []byte) string {
	s := slices.Clone(b)
	for i, c := range s {
		if c >= 0x80 {
			s[i] = 0x01
		}
	}
	return string(s)
}

func regexpBytes(s string) string { return regexp.QuoteMeta(asASCII([]byte(s))) }

// compareFormWithOracle parses a form and checks what is found.
func compareFormWithOracle(t *testing.T, contentType string, body []byte) {
	t.Helper()
	var f Facts
	start, end, hasModel, ok := oracleForm(contentType, body)
	if got := f.ParseMultipart([]byte(contentType), body); got != ok {
		t.Fatalf("ParseMultipart(%q, %q) = %v, want %v", contentType, body, got, ok)
	}
	gotStart, gotEnd, gotModel := f.ModelSpan()
	if gotModel != hasModel || gotStart != start || gotEnd != end {
		t.Fatalf("ParseMultipart(%q, %q): model at %d to %d (%v), want %d to %d (%v)", contentType, body, gotStart, gotEnd, gotModel, start, end, hasModel)
	}
	want := slices.Concat(body[:start], []byte("served"), body[end:])
	if !hasModel {
		want = body
	}
	if got := AppendModelSplice(nil, body, &f, "served"); !bytes.Equal(got, want) {
		t.Fatalf("AppendModelSplice(%q) = %q, want %q", body, got, want)
	}
}

// TestMultipartAgreesWithOracle damages forms at random.
func TestMultipartAgreesWithOracle(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	m := &bodyMaker{Rand: rand.New(rand.NewPCG(seed, 0))}
	for range randomBodies / 10 {
		contentType, body := m.form()
		for range m.IntN(3) {
			at := m.IntN(len(body) + 1)
			switch m.IntN(4) {
			case 0:
				body = body[:at]
			case 1:
				body = slices.Insert(body, at, []byte(oneOf(m, "\r\n", "\r", "\n", "--", "\r\n--b", "--b\r\n", "--b--", " ", "\t", ";", `"`, "=", ":", "\r\n\r\n"))...)
			case 2:
				if at < len(body) {
					body = slices.Delete(body, at, at+1)
				}
			case 3:
				contentType = oneOf(m, contentType+" ", contentType+"; x=y", `multipart/form-data; boundary="b"`, "multipart/form-data;;boundary=b", "multipart/form-data; boundary")
			}
		}
		compareFormWithOracle(t, contentType, body)
	}
}

// FuzzMultipart compares with the oracle, which reads ASCII only.
func FuzzMultipart(f *testing.F) {
	f.Add("multipart/form-data; boundary=b", []byte("--b\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nm1\r\n--b--\r\n"))
	f.Add(`multipart/form-data; boundary="a \"b"`, []byte("x\r\n--a \"b \r\nContent-Disposition: form-data; name=\"mo\\del\"\r\n\r\n--a \"b--"))
	f.Add("multipart/form-data; boundary=b", []byte("--b\r\nContent-Disposition: form-data; name=\"model\"; filename=f\r\n\r\nm1\r\n--b\r\n\r\n--b--"))
	m := &bodyMaker{Rand: rand.New(rand.NewPCG(1, 1))}
	for range 5 {
		contentType, body := m.form()
		f.Add(contentType, body)
	}
	f.Fuzz(func(t *testing.T, contentType string, body []byte) {
		compareFormWithOracle(t, asASCII([]byte(contentType)), []byte(asASCII(body)))
	})
}
