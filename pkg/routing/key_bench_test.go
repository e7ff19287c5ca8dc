package routing

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// proseBody returns a chat request whose messages hold about size bytes of text
// like that of coding agents: random words with line breaks, quotes, backslashes
// and, now and then, characters beyond ASCII.
func proseBody(size int, modelFirst bool, seed uint64) []byte {
	r := rand.New(rand.NewPCG(3, seed))
	words := strings.Fields(`the gateway reads \"model\" from body and picks a replica by its key if err != nil { return err } ` +
		`func main() naive facade: configuration, value \\d+ streaming x := y[i] // see https://example.org/issues/42`)
	text := func(b *bytes.Buffer, n int) {
		for end := b.Len() + n; b.Len() < end; {
			b.WriteString(words[r.IntN(len(words))])
			switch n := r.IntN(60); {
			case n < 5:
				b.WriteString(`\n    `)
			case n == 5:
				b.WriteString(" – naïve ")
			default:
				b.WriteByte(' ')
			}
		}
	}
	var b bytes.Buffer
	b.WriteString(`{`)
	if modelFirst {
		b.WriteString(`"model":"llama-3",`)
	}
	b.WriteString(`"messages":[{"role":"system","content":"You are an expert Python developer. `)
	text(&b, size/4)
	b.WriteString(`"}`)
	for i := 0; b.Len() < size-150; i++ {
		fmt.Fprintf(&b, `,{"role":"%s","content":"`, []string{"user", "assistant"}[i%2])
		text(&b, min(size-b.Len(), 200+r.IntN(2000)))
		b.WriteString(`"}`)
	}
	b.WriteString(`],"temperature":0.7,"stream":true`)
	if !modelFirst {
		b.WriteString(`,"model":"llama-3"`)
	}
	b.WriteString(`}`)
	return b.Bytes()
}

// toolsBody returns a chat request with about size bytes of tool schemas in
// front of the model: short names, nesting, numbers.
func toolsBody(size int) []byte {
	var b bytes.Buffer
	b.WriteString(`{"tools":[`)
	for i := 0; b.Len() < size; i++ {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"type":"function","function":{"name":"tool_%d","description":"Reads a file and returns its lines.","parameters":{"type":"object","properties":{"path":{"type":"string","description":"Where it is"},"limit":{"type":"integer","minimum":1,"maximum":2000}},"required":["path"],"additionalProperties":false}}}`, i)
	}
	b.WriteString(`],"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"Hello"}],"model":"llama-3"}`)
	return b.Bytes()
}

// imageBody returns a chat request with about size bytes of image data.
func imageBody(size int) []byte {
	return []byte(`{"messages":[{"role":"user","content":[{"type":"text","text":"What is this?"},{"type":"image_url","image_url":{"url":"data:image/png;base64,` +
		strings.Repeat("iVBORw0KGgoAAAANSUhEUgAA", size/24) + `"}}]}],"model":"llama-3"}`)
}

// cjkBody returns a chat request of about size bytes, almost all of them of
// characters of three bytes.
func cjkBody(size int) []byte {
	return []byte(`{"messages":[{"role":"system","content":"` + strings.Repeat("请根据文档内容回答问题，", size/36) + `"},{"role":"user","content":"你好"}],"model":"llama-3"}`)
}

// linesBody returns a chat request of size bytes whose system text is lines of 27
// bytes, each with an escaped line break, and whose user text has no escapes.
func linesBody(size int) []byte {
	const front, middle, end = `{"model":"llama-3","temperature":0.7,"messages":[{"role":"system","content":"You are assistant 7. `,
		`"},{"role":"user","content":"Tell me more. `, `"}]}`
	system := strings.Repeat(`Answer in short sentences.\n`, 30*size>>11)
	fill := size - len(front) - len(system) - len(middle) - len(end)
	return []byte(front + system + middle + strings.Repeat("x", fill) + end)
}

// escapesBody returns a chat request of about size bytes with an escape every
// 33 bytes.
func escapesBody(size int) []byte {
	return []byte(`{"messages":[{"role":"system","content":"` +
		strings.Repeat(`every line of this is thirty-one.\n`[2:], size/33) + `"},{"role":"user","content":"Hi"}],"model":"llama-3"}`)
}

var benchBodies = []struct {
	name string
	body []byte
}{
	{"lines-2KB-front", linesBody(2 << 10)},
	{"lines-500KB-front", linesBody(500 << 10)},
	{"escapes-500KB-behind", escapesBody(500 << 10)},
	{"prose-2KB-front", proseBody(2<<10, true, 4)},
	{"prose-2KB-behind", proseBody(2<<10, false, 4)},
	{"prose-200KB-behind", proseBody(200<<10, false, 4)},
	{"prose-500KB-front", proseBody(500<<10, true, 4)},
	{"prose-500KB-behind", proseBody(500<<10, false, 4)},
	{"prose-2MB-behind", proseBody(2<<20, false, 4)},
	{"prose-30MB-behind", proseBody(30<<20, false, 4)},
	{"tools-3MB-behind", toolsBody(3 << 20)},
	{"image-2MB-behind", imageBody(2 << 20)},
	{"image-30MB-behind", imageBody(30 << 20)},
	{"cjk-500KB-behind", cjkBody(500 << 10)},
}

func BenchmarkParseJSON(b *testing.B) {
	o := DefaultKeyOptions()
	for _, c := range benchBodies {
		b.Run(c.name, func(b *testing.B) {
			var f Facts
			b.SetBytes(int64(len(c.body)))
			b.ReportAllocs()
			for b.Loop() {
				if !f.ParseJSON(c.body, &o) {
					b.Fatal("the body is valid")
				}
			}
		})
	}
}

func BenchmarkParseAndKey(b *testing.B) {
	o := DefaultKeyOptions()
	var h fieldLines
	for _, c := range benchBodies {
		b.Run(c.name+"/prefix", func(b *testing.B) {
			var f Facts
			var m Malformed
			b.SetBytes(int64(len(c.body)))
			b.ReportAllocs()
			for b.Loop() {
				f.ParseJSON(c.body, &o)
				if !PrefixKey(h, &f, &o, "prod/llama-3", &m).Valid() {
					b.Fatal("no key")
				}
			}
		})
		b.Run(c.name+"/session", func(b *testing.B) {
			var f Facts
			b.SetBytes(int64(len(c.body)))
			b.ReportAllocs()
			for b.Loop() {
				f.ParseJSON(c.body, &o)
				if !SessionKey(h, &f, &o).Valid() {
					b.Fatal("no key")
				}
			}
		})
	}
}

func BenchmarkNormalize(b *testing.B) {
	text := func(body []byte) rawText {
		const before = `"system","content":"`
		return rawText(body[bytes.Index(body, []byte(before))+len(before):][:700])
	}
	for _, c := range []struct {
		name string
		text rawText
	}{
		{"lines", text(linesBody(2 << 10))},
		{"prose", text(proseBody(8<<10, true, 4))},
		{"cjk", text(cjkBody(2 << 10))},
		{"words", rawText(strings.Repeat("Answer in short sentences, ", 30))},
	} {
		b.Run(c.name, func(b *testing.B) {
			var n normalizer
			for b.Loop() {
				n.reset(DefaultSystemSegmentMaxLength)
				if n.add(c.text) {
					b.Fatal("more than the limit fits")
				}
			}
		})
	}
}

// BenchmarkKeyOfMany takes the prefix key of a body unlike the one before, as a
// server does: branches are guessed wrongly, caches are colder.
func BenchmarkKeyOfMany(b *testing.B) {
	o := DefaultKeyOptions()
	var h fieldLines
	for _, c := range []struct {
		name string
		body func(seed int) []byte
	}{
		{"prose-2KB", func(seed int) []byte { return proseBody(2<<10-seed, true, uint64(seed)) }},
		{"lines-2KB", func(seed int) []byte {
			return bytes.Replace(linesBody(2<<10), []byte("7. "), fmt.Append(nil, seed, ". "), 1)
		}},
	} {
		bodies := make([][]byte, 256)
		for i := range bodies {
			bodies[i] = c.body(i)
		}
		b.Run(c.name, func(b *testing.B) {
			var f Facts
			var m Malformed
			b.SetBytes(int64(len(bodies[0])))
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				f.ParseJSON(bodies[i*37&255], &o)
				i++
				if !PrefixKey(h, &f, &o, "prod/llama-3", &m).Valid() {
					b.Fatal("no key")
				}
			}
		})
	}
}

func BenchmarkParseMultipart(b *testing.B) {
	for _, size := range []int{200 << 10, 30 << 20} {
		body := audioForm(size)
		b.Run(fmt.Sprint(size>>10, "KB"), func(b *testing.B) {
			var f Facts
			contentType := []byte(audioFormType)
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if !f.ParseMultipart(contentType, body) {
					b.Fatal("the form is valid")
				}
			}
		})
	}
}
