package inspect

import (
	"compress/gzip"
	"context"
	"io"

	"github.com/tare-bench/tare/internal/image"
)

// compress learns the compressed size of layers that are stored uncompressed: with gzip's default
// level, which engines use to push.
func (r *Report) compress(ctx context.Context, img *image.Image) error {
	for n := range r.Layers {
		l := &r.Layers[n]
		if l.Compression == image.Plain {
			size, err := gzipped(ctx, img, n)
			if err != nil {
				return err
			}
			l.Compressed = size
		}
		r.Compressed += l.Compressed
	}
	return nil
}

// gzipped reads a layer. Walk has checked its size before.
func gzipped(ctx context.Context, img *image.Image, n int) (int64, error) {
	r, err := img.OpenLayer(n)
	if err != nil {
		return 0, err
	}
	defer func() { _ = r.Close() }() // only read from
	var size counter
	w := gzip.NewWriter(&size)
	if _, err := io.Copy(w, contextReader{ctx, r}); err != nil {
		return 0, err
	}
	err = w.Close()
	return int64(size), err
}

// A counter counts what is written to it.
type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

// contextReader is a reader that ends with its context.
type contextReader struct {
	ctx context.Context
	io.Reader
}

func (u contextReader) Read(p []byte) (int, error) {
	if u.ctx.Err() != nil {
		return 0, context.Cause(u.ctx)
	}
	return u.Reader.Read(p)
}
