package publish

import (
	"errors"
	"io"
	"sync"

	"github.com/klauspost/compress/zstd"
	"google.golang.org/grpc/encoding"
)

// zstdName is the coding's name in the grpc-encoding field.
const zstdName = "zstd"

func init() { //nolint:gochecknoinits // gRPC allows it at no other time
	encoding.RegisterCompressor(&zstdCompressor{})
}

// zstdCompressor lets gRPC write and read zstd. How far a message may unfold is
// bound by gRPC, which stops reading at its message limit, and its window here.
type zstdCompressor struct {
	writers, readers sync.Pool
}

// maxWindow bounds a reader's memory.
const maxWindow = 8 << 20

func (c *zstdCompressor) Name() string { return zstdName }

func (c *zstdCompressor) Compress(w io.Writer) (io.WriteCloser, error) {
	if z, ok := c.writers.Get().(*zstdWriter); ok {
		z.Reset(w)
		return z, nil
	}
	z, err := zstd.NewWriter(w, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(1<<20))
	if err != nil {
		return nil, err
	}
	return &zstdWriter{z, &c.writers}, nil
}

func (c *zstdCompressor) Decompress(r io.Reader) (io.Reader, error) {
	if z, ok := c.readers.Get().(*zstdReader); ok {
		if err := z.Reset(r); err != nil {
			return nil, err
		}
		return z, nil
	}
	z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow))
	if err != nil {
		return nil, err
	}
	return &zstdReader{z, &c.readers}, nil
}

type zstdWriter struct {
	*zstd.Encoder
	pool *sync.Pool
}

// Close ends the message and gives the writer back.
func (w *zstdWriter) Close() error {
	err := w.Encoder.Close()
	w.pool.Put(w)
	return err
}

type zstdReader struct {
	*zstd.Decoder
	pool *sync.Pool
}

// Read gives the reader back at the end of the message. One that is not read to
// its end is left to the collector.
func (r *zstdReader) Read(p []byte) (int, error) {
	n, err := r.Decoder.Read(p)
	if errors.Is(err, io.EOF) {
		r.pool.Put(r)
	}
	return n, err
}
