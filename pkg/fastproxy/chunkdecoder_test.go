package fastproxy

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"
)

// decodeInPieces decodes in, given in pieces of the sizes that size returns.
func decodeInPieces(in []byte, size func() int) (payload []byte, used int, done bool, trailers string, ok bool) {
	c := chunkDecoder{blanks: true}
	ok = true
	for used < len(in) && ok && !c.done() {
		b := in[used:min(len(in), used+size())]
		var piece []byte
		var n int
		piece, n, ok = c.next(b)
		payload = append(payload, piece...)
		used += n
		if n == 0 && ok && !c.done() {
			panic("no progress")
		}
	}
	if c.done() {
		c.trailers(func(k, v []byte) { trailers += string(k) + "=" + string(v) + ";" })
	}
	return payload, used, c.done(), trailers, ok
}

// blankBeforeExtension is what RFC 9112 wants parsed and net/http refuses.
var blankBeforeExtension = regexp.MustCompile("[0-9A-Fa-f][ \t]+;")

// FuzzChunkDecoder compares with net/http: what the decoder takes as a body,
// net/http takes as the same body; and it does not matter in which pieces the
// bytes arrive.
func FuzzChunkDecoder(f *testing.F) {
	for _, s := range []string{
		"0\r\n\r\n", "5\r\nhello\r\n0\r\n\r\n", "5;a=b\r\nhello\r\n0\r\n\r\nsurplus",
		"5 \r\nhello\r\n00000\r\nA: b\r\nC: d\r\n\r\n", "a\r\n0123456789\r\nA\r\n0123456789\r\n0;x\r\n\r\n",
		"5\nhello\n0\n\n", "0x5\r\nhello\r\n0\r\n\r\n", "-1\r\n\r\n", "5\r\nhelloXX0\r\n\r\n", "ffffffffffffffff\r\n",
		"fffffffffffffff\r\n", "5\r\nhello\r\n0\r\nA : b\r\n\r\n", "5\r\nhello\r\n0\r\n: b\r\n\r\n", "0\r\nA: b\nB: c\r\n\r\n",
		" 5\r\nhello\r\n0\r\n\r\n", "5\r\r\nhello\r\n0\r\n\r\n", "5;\x00\r\nhello\r\n0\r\n\r\n", "\r\n0\r\n\r\n",
		"1;" + strings.Repeat("x", 3000) + "\r\na\r\n0\r\n\r\n", strings.Repeat("1\r\na\r\n", 5000) + "0\r\n\r\n",
		"0\r\n" + strings.Repeat("Trailer-Name: value\r\n", 300) + "\r\n", "0\r\nA: b\r\n c\r\n\r\n",
	} {
		f.Add([]byte(s), uint64(len(s)))
	}
	f.Fuzz(func(t *testing.T, in []byte, seed uint64) {
		all := func() int { return len(in) }
		payload, used, done, trailers, ok := decodeInPieces(in, all)
		if used > len(in) || len(payload) > used {
			t.Fatalf("used %d, payload %d of %d bytes", used, len(payload), len(in))
		}
		rnd := rand.New(rand.NewPCG(seed, 1))
		p2, used2, done2, trailers2, ok2 := decodeInPieces(in, func() int { return 1 + rnd.IntN(7) })
		if ok2 != ok || done2 != done || !bytes.Equal(p2, payload) || trailers2 != trailers || done && used2 != used {
			t.Fatalf("in pieces: %q %d %v %q %v, at once: %q %d %v %q %v",
				p2, used2, done2, trailers2, ok2, payload, used, done, trailers, ok)
		}
		if !done || !ok || blankBeforeExtension.Match(in) {
			return
		}
		r := bufio.NewReaderSize(io.MultiReader(strings.NewReader("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"), bytes.NewReader(in)), 64<<10)
		resp, errHTTP := http.ReadResponse(r, nil)
		if errHTTP != nil {
			t.Fatal(errHTTP)
		}
		want, errHTTP := io.ReadAll(resp.Body)
		if errHTTP != nil {
			t.Fatalf("net/http refuses the body: %v", errHTTP)
		}
		if !bytes.Equal(want, payload) {
			t.Fatalf("net/http reads %q, we %q", want, payload)
		}
		if rest, _ := io.ReadAll(r); len(rest) != len(in)-used {
			t.Fatalf("net/http leaves %d bytes behind the body, we %d", len(rest), len(in)-used)
		}
	})
}

// TestChunkDecoderTakesValid: any valid encoding, in any pieces, gives back the
// payload and the trailers.
func TestChunkDecoderTakesValid(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	for range 3000 {
		var in, want []byte
		for range rnd.IntN(20) {
			piece := pattern(1 + rnd.IntN(1<<rnd.IntN(12)))
			ext := ""
			if rnd.IntN(4) == 0 {
				ext = ";" + strings.Repeat("e", rnd.IntN(20)) + "=\"v w\""
			}
			format := [...]string{"%x", "%X", "%04x"}[rnd.IntN(3)]
			in = fmt.Appendf(in, format+"%s\r\n%s\r\n", len(piece), ext, piece)
			want = append(want, piece...)
		}
		trailers := ""
		in = append(in, strings.Repeat("0", 1+rnd.IntN(5))+"\r\n"...)
		for i := range rnd.IntN(4) {
			in = fmt.Appendf(in, "X-T%d:  v%d \r\n", i, i)
			trailers += fmt.Sprintf("X-T%d=v%d;", i, i)
		}
		in = append(in, "\r\n"...)
		whole := len(in)
		in = append(in, "surplus"...)
		most := 1 + rnd.IntN(1<<rnd.IntN(13))
		payload, used, done, got, ok := decodeInPieces(in, func() int { return 1 + rnd.IntN(most) })
		if !ok || !done || used != whole || !bytes.Equal(payload, want) || got != trailers {
			t.Fatalf("%d of %d bytes, done %v, trailers %q of %q, ok %v", used, whole, done, got, trailers, ok)
		}
	}
}
