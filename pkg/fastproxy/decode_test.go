package fastproxy

import (
	"bytes"
	stdflate "compress/flate"
	stdgzip "compress/gzip"
	stdzlib "compress/zlib"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
)

// encode applies one coding with the reference writers.
func encode(t testing.TB, coding string, plain []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	var w io.WriteCloser
	var err error
	switch coding {
	case "gzip", "x-gzip":
		w = stdgzip.NewWriter(&b)
	case "deflate":
		w = stdzlib.NewWriter(&b)
	case "raw deflate":
		w, err = stdflate.NewWriter(&b, stdflate.DefaultCompression)
	case "br":
		w = brotli.NewWriter(&b)
	case "zstd":
		w, err = zstd.NewWriter(&b, zstd.WithEncoderConcurrency(1))
	default:
		t.Fatalf("no writer for %q", coding)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err = w.Write(plain); err != nil {
		t.Fatal(err)
	}
	if err = w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

var codingsSpoken = []string{"gzip", "x-gzip", "deflate", "raw deflate", "br", "zstd"}

// codingName is what a client says of encode's coding.
func codingName(coding string) string { return strings.TrimPrefix(coding, "raw ") }

func samplePlain() [][]byte {
	random := make([]byte, 300<<10)
	rnd := rand.New(rand.NewPCG(1, 2))
	for i := range random {
		random[i] = byte(rnd.Uint32())
	}
	return [][]byte{
		{}, []byte("{}"), []byte(`{"model":"m","messages":[]}`),
		bytes.Repeat([]byte(`{"role":"user","content":"hello"},`), 20_000), random,
	}
}

func TestDecodeBody(t *testing.T) {
	for _, coding := range codingsSpoken {
		for _, plain := range samplePlain() {
			got, err := decodeBody([]byte("kept"), []byte(codingName(coding)), encode(t, coding, plain), len(plain))
			if err != nil || !bytes.Equal(got, append([]byte("kept"), plain...)) {
				t.Errorf("%s of %d bytes: %d bytes, %v", coding, len(plain), len(got), err)
			}
		}
	}
}

func TestDecodeBodyLists(t *testing.T) {
	plain := []byte(strings.Repeat("what was said ", 1000))
	f := func(encoding string, body []byte, want error) {
		t.Helper()
		got, err := decodeBody(nil, []byte(encoding), body, 1<<20)
		if !errors.Is(err, want) || want == nil && !bytes.Equal(got, plain) {
			t.Errorf("%q: %d bytes, %v; want %v", encoding, len(got), err, want)
		}
	}
	gzip := encode(t, "gzip", plain)
	f("", plain, nil)
	f("identity", plain, nil)
	f(" Identity , ", plain, nil)
	f("GZIP", gzip, nil)
	f("X-Gzip", gzip, nil)
	f(" gzip ,identity", gzip, nil)
	f("gzip, br", encode(t, "br", gzip), nil)
	f("zstd, gzip, deflate", encode(t, "deflate", encode(t, "gzip", encode(t, "zstd", plain))), nil)
	f("gzip, br", encode(t, "gzip", encode(t, "br", plain)), errBroken) // the other way round
	f("gzip, gzip, gzip, gzip", gzip, errUnknownCoding)
	f("compress", gzip, errUnknownCoding)
	f("gzip, lz4", gzip, errUnknownCoding)
	f("gzip;q=1", gzip, errUnknownCoding)
	f("aes128gcm", gzip, errUnknownCoding)
}

func TestDecodeBodyLimit(t *testing.T) {
	plain := bytes.Repeat([]byte{'a'}, 100_000)
	for _, coding := range codingsSpoken {
		body := encode(t, coding, plain)
		name := []byte(codingName(coding))
		if _, err := decodeBody(nil, name, body, len(plain)); err != nil {
			t.Errorf("%s at the limit: %v", coding, err)
		}
		if got, err := decodeBody(nil, name, body, len(plain)-1); err != errTooLarge || len(got) > len(plain) {
			t.Errorf("%s over the limit: %d bytes, %v", coding, len(got), err)
		}
	}
	if _, err := decodeBody(nil, nil, plain, len(plain)-1); err != errTooLarge {
		t.Errorf("without a coding: %v", err)
	}
}

// TestDecodeBodyBombs: a small body that grows a thousandfold costs the limit,
// not what it would grow to.
func TestDecodeBodyBombs(t *testing.T) {
	const limit = 1 << 20
	zeros := make([]byte, 64<<20)
	for _, coding := range codingsSpoken {
		body := encode(t, coding, zeros)
		name := codingName(coding)
		got, err := decodeBody(nil, []byte(name), body, limit)
		if err != errTooLarge || len(got) > limit+1 || cap(got) > 4*limit {
			t.Errorf("%s: %d bytes in %d, %v", coding, len(got), cap(got), err)
		}
		if coding == "gzip" { // the bomb within a bomb is bounded between the codings
			twice := encode(t, "br", body)
			if _, err = decodeBody(nil, []byte("gzip, br"), twice, limit); err != errTooLarge {
				t.Errorf("bomb in a bomb: %v", err)
			}
			if _, err = decodeBody(nil, []byte("gzip, br"), encode(t, "br", zeros), limit); err != errTooLarge {
				t.Errorf("bomb between the codings: %v", err)
			}
		}
	}
	var wide bytes.Buffer // a window over the bound needs memory before a byte is known
	w, err := zstd.NewWriter(&wide, zstd.WithWindowSize(64<<20), zstd.WithEncoderConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	w.Write(zeros[:1<<20])
	w.Write(zeros[:1<<20])
	w.Flush()
	w.Close()
	if _, err = decodeBody(nil, []byte("zstd"), wide.Bytes(), 32<<20); err != errBroken {
		t.Errorf("zstd with a window of 64 MiB: %v", err)
	}
}

// TestDecodeBodyCut: a stream that stops anywhere before its end is broken, and
// so is one with something behind its end.
func TestDecodeBodyCut(t *testing.T) {
	plain := []byte(strings.Repeat(`{"role":"user","content":"hello"},`, 50))
	for _, coding := range codingsSpoken {
		body := encode(t, coding, plain)
		name := []byte(codingName(coding))
		for n := range body {
			if coding == "zstd" && n == 0 {
				continue // no frame at all is an empty stream
			}
			if got, err := decodeBody(nil, name, body[:n], 1<<20); err != errBroken {
				t.Errorf("%s cut at %d of %d: %d bytes, %v", coding, n, len(body), len(got), err)
			}
		}
		if _, err := decodeBody(nil, name, append(bytes.Clone(body), "tail"...), 1<<20); err != errBroken {
			t.Errorf("%s with a tail: %v", coding, err)
		}
		if got, err := decodeBody(nil, name, body, 1<<20); err != nil || !bytes.Equal(got, plain) {
			t.Errorf("%s after broken ones: %v", coding, err)
		}
	}
}

func TestDecodeBodyBroken(t *testing.T) {
	plain := []byte(strings.Repeat("sum", 1000))
	f := func(coding string, at int) {
		t.Helper()
		body := encode(t, coding, plain)
		body[(at+len(body))%len(body)] ^= 0x55
		if _, err := decodeBody(nil, []byte(coding), body, 1<<20); err != errBroken {
			t.Errorf("%s with a flipped byte at %d: %v", coding, at, err)
		}
	}
	f("gzip", 0)
	f("gzip", -1) // length
	f("gzip", -6) // checksum
	f("zstd", 0)
	f("zstd", -1) // checksum
	f("deflate", -1)
	for _, coding := range codingsSpoken {
		if _, err := decodeBody(nil, []byte(codingName(coding)), plain, 1<<20); err != errBroken {
			t.Errorf("%s of plain text: %v", coding, err)
		}
	}
}

func TestDecodeBodyMembers(t *testing.T) {
	a, b := []byte("first "), []byte("second")
	for _, coding := range []string{"gzip", "zstd"} {
		body := append(encode(t, coding, a), encode(t, coding, b)...)
		if got, err := decodeBody(nil, []byte(coding), body, 100); err != nil || string(got) != "first second" {
			t.Errorf("%s: %q, %v", coding, got, err)
		}
	}
}

func TestDecodeBodyConcurrently(t *testing.T) {
	plain := samplePlain()[3]
	bodies := map[string][]byte{}
	for _, coding := range codingsSpoken {
		bodies[coding] = encode(t, coding, plain)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 3 {
				for coding, body := range bodies {
					cut := body[:len(body)/2]
					if _, err := decodeBody(nil, []byte(codingName(coding)), cut, 1<<20); err != errBroken {
						t.Errorf("%s cut: %v", coding, err)
					}
					if got, err := decodeBody(nil, []byte(codingName(coding)), body, 1<<20); err != nil || !bytes.Equal(got, plain) {
						t.Errorf("%s: %v", coding, err)
					}
				}
			}
		})
	}
	wg.Wait()
}

// FuzzDecode holds decodeBody against the reference readers: it accepts what
// they read to a clean end within the limit, and only that.
func FuzzDecode(f *testing.F) {
	const limit = 64 << 10
	for i, coding := range codingsSpoken {
		for _, plain := range samplePlain()[:4] {
			body := encode(f, coding, plain)
			f.Add(uint8(i), body)
			f.Add(uint8(i), body[:len(body)/2])
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, body []byte) {
		coding := codingsSpoken[int(which)%len(codingsSpoken)]
		got, err := decodeBody(nil, []byte(codingName(coding)), body, limit)
		if len(got) > limit+1 {
			t.Fatalf("%s: %d bytes over the limit", coding, len(got))
		}
		want, wantErr := referenceDecode(codingName(coding), body, limit)
		switch {
		case err == nil && wantErr != nil:
			t.Fatalf("%s: accepted what the reference refuses: %v", coding, wantErr)
		case err == nil && !bytes.Equal(got, want):
			t.Fatalf("%s: %d bytes, reference %d", coding, len(got), len(want))
		case err != nil && wantErr == nil:
			t.Fatalf("%s: %v, reference reads %d bytes", coding, err, len(want))
		}
	})
}

// referenceDecode is decodeBody by fresh readers of other origin where there
// are any.
func referenceDecode(coding string, body []byte, limit int) ([]byte, error) {
	src := bytes.NewReader(body)
	read := func(r io.Reader, err error) ([]byte, error) {
		if err != nil {
			return nil, err
		}
		out, err := io.ReadAll(io.LimitReader(r, int64(limit)+1))
		if err == nil && len(out) > limit {
			return out, errTooLarge
		}
		if err == nil && src.Len() > 0 {
			return out, errors.New("something follows the end")
		}
		return out, err
	}
	switch coding {
	case "br":
		return read(brotli.NewReader(src), nil)
	case "zstd":
		r, err := zstd.NewReader(src, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxZstdWindow))
		if err == nil {
			defer r.Close()
		}
		return read(r, err)
	case "deflate":
		out, err := read(stdzlib.NewReader(src))
		if err == nil || err == errTooLarge {
			return out, err
		}
		src = bytes.NewReader(body)
		return read(stdflate.NewReader(src), nil)
	}
	return referenceGzip(body, limit)
}

// referenceGzip reads all members. It refuses reserved header flags as RFC 1952
// asks, which the standard library lets pass.
func referenceGzip(body []byte, limit int) (out []byte, err error) {
	src := bytes.NewReader(body)
	var r stdgzip.Reader
	for {
		if at := len(body) - src.Len(); len(body) > at+3 && body[at+3]>>5 != 0 {
			return out, stdgzip.ErrHeader
		}
		if err := r.Reset(src); err != nil {
			return out, err
		}
		r.Multistream(false)
		member, err := io.ReadAll(io.LimitReader(&r, int64(limit+1-len(out))))
		out = append(out, member...)
		switch {
		case err != nil:
			return out, err
		case len(out) > limit:
			return out, errTooLarge
		case src.Len() == 0:
			return out, nil
		}
	}
}
