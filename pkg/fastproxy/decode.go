package fastproxy

import (
	"bytes"
	"errors"
	"io"
	"sync"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
)

// What decoding a request's body reports.
var (
	// errTooLarge: the decoded body is over the limit.
	errTooLarge = errors.New("fastproxy: decoded request body is over the limit")
	// errBroken: the body is not what its coding says, cut short included.
	errBroken = errors.New("fastproxy: request body does not decode")
	// errUnknownCoding: a coding that is not spoken here, or too many.
	errUnknownCoding = errors.New("fastproxy: unknown content coding")
)

// acceptedCodings is what a client may send.
const acceptedCodings = "gzip, zstd, br, deflate"

const (
	// maxCodings bounds the codings laid over each other.
	maxCodings = 3
	// maxZstdWindow is the window that RFC 8878 3.1.1.1.2 recommends to accept.
	maxZstdWindow = 8 << 20
)

// contentCoding is a coding that decodeBody undoes.
type contentCoding uint8

const (
	codingGzip contentCoding = iota
	codingZstd
	codingBrotli
	codingZlib // what HTTP calls deflate
	codingFlate
	numCodings
)

// decodeBody appends body with the codings of a Content-Encoding value undone to
// dst. The result is at most limit bytes, and so is what lies between two
// codings; a decoder holds at most a window beside that (16 MiB for brotli, 8
// MiB for zstd, 32 KiB for the others). Errors: errTooLarge, errBroken,
// errUnknownCoding; dst comes back with all of them. Decoders are pooled.
func decodeBody(dst, encoding, body []byte, limit int) ([]byte, error) {
	var codings [maxCodings]contentCoding
	n := 0
	for rest := encoding; len(rest) > 0; {
		var token []byte
		token, rest = nextToken(rest)
		if len(token) == 0 || equalFold(token, "identity") {
			continue
		}
		c, known := codingOf(token)
		if !known || n == maxCodings {
			return dst, errUnknownCoding
		}
		codings[n] = c
		n++
	}
	if n == 0 {
		if len(body) > limit {
			return dst, errTooLarge
		}
		return append(dst, body...), nil
	}
	for n--; n > 0; n-- { // the last coding was applied last
		between := bodyBuffers.get(2 * len(body))
		defer bodyBuffers.put(between)
		var err error
		if *between, err = decodeOne((*between)[:0], codings[n], body, limit); err != nil {
			return dst, err
		}
		body = *between
	}
	return decodeOne(dst, codings[0], body, limit)
}

func codingOf(token []byte) (contentCoding, bool) {
	switch {
	case equalFold(token, "gzip"), equalFold(token, "x-gzip"):
		return codingGzip, true
	case equalFold(token, "zstd"):
		return codingZstd, true
	case equalFold(token, "br"):
		return codingBrotli, true
	case equalFold(token, "deflate"):
		return codingZlib, true
	}
	return 0, false
}

// decodeOne undoes one coding. "deflate" is zlib's format by RFC 9110 and raw
// by the habit of some clients.
func decodeOne(dst []byte, c contentCoding, body []byte, limit int) ([]byte, error) {
	if c != codingZlib {
		return decodeAs(dst, c, body, limit)
	}
	start := len(dst)
	dst, err := decodeAs(dst, codingZlib, body, limit)
	if err == errBroken {
		return decodeAs(dst[:start], codingFlate, body, limit)
	}
	return dst, err
}

func decodeAs(dst []byte, c contentCoding, body []byte, limit int) ([]byte, error) {
	d := decoders[c].Get().(*decoder)
	defer decoders[c].Put(d)
	d.src.Reset(body)
	defer d.src.Reset(nil)
	r, err := d.open(&d.src)
	if err != nil {
		return dst, errBroken
	}
	dst, err = readLimited(dst, r, limit)
	if err == nil && d.src.Len() > 0 {
		return dst, errBroken // something follows the end
	}
	return dst, err
}

// readLimited appends what r gives up to its end, at most limit bytes.
func readLimited(dst []byte, r io.Reader, limit int) ([]byte, error) {
	const idleReads = 64
	end := len(dst) + limit
	for idle := 0; ; {
		if len(dst) == cap(dst) {
			dst = append(dst, 0)[:len(dst)]
		}
		n, err := r.Read(dst[len(dst):min(cap(dst), end+1)])
		dst = dst[:len(dst)+n]
		if len(dst) > end {
			return dst, errTooLarge
		}
		if err == io.EOF {
			return dst, nil
		}
		if n == 0 {
			idle++
		}
		if err != nil || idle > idleReads {
			return dst, errBroken
		}
	}
}

// decoder is one pooled decoder; open begins a stream of src.
type decoder struct {
	src  bytes.Reader
	open func(src *bytes.Reader) (io.Reader, error)
}

var decoders = [numCodings]sync.Pool{
	codingGzip:   {New: newGzipDecoder},
	codingZstd:   {New: newZstdDecoder},
	codingBrotli: {New: newBrotliDecoder},
	codingZlib:   {New: newZlibDecoder},
	codingFlate:  {New: newFlateDecoder},
}

func newGzipDecoder() any {
	r := new(gzip.Reader)
	return &decoder{open: func(src *bytes.Reader) (io.Reader, error) { return r, r.Reset(src) }}
}

func newZstdDecoder() any {
	r, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(maxZstdWindow), zstd.WithDecodeBuffersBelow(0))
	if err != nil {
		panic("BUG: zstd refuses its options: " + err.Error())
	}
	return &decoder{open: func(src *bytes.Reader) (io.Reader, error) { return r, r.Reset(src) }}
}

func newBrotliDecoder() any {
	r := brotli.NewReader(nil)
	return &decoder{open: func(src *bytes.Reader) (io.Reader, error) { return r, r.Reset(src) }}
}

func newZlibDecoder() any {
	var r io.ReadCloser // made with the first stream: it reads the header at once
	return &decoder{open: func(src *bytes.Reader) (io.Reader, error) {
		if r == nil {
			made, err := zlib.NewReader(src)
			if err != nil {
				return nil, err
			}
			r = made
			return r, nil
		}
		return r, r.(zlib.Resetter).Reset(src, nil)
	}}
}

func newFlateDecoder() any {
	r := flate.NewReader(nil)
	return &decoder{open: func(src *bytes.Reader) (io.Reader, error) { return r, r.(flate.Resetter).Reset(src, nil) }}
}
