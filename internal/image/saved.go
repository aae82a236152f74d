package image

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/tare-bench/tare/internal/bench"
)

// ResolveIn is Resolve, but it also finds an image that only the engine has in its own store. The
// engine saves such an image below the library's directory, once.
func (l *Library) ResolveIn(ctx context.Context, e bench.Engine, ref string) (*Image, error) {
	img, err := l.Resolve(ctx, ref)
	if !errors.Is(err, ErrForeign) {
		return img, err
	}
	store, ok := bench.As[bench.ImageSaver](e)
	if !ok {
		return nil, err
	}
	return l.Saved(ctx, store, e.Name(), ref)
}

// Saved is the image that a store has under a name. owner distinguishes stores.
func (l *Library) Saved(ctx context.Context, store bench.ImageSaver, owner, name string) (*Image, error) {
	unlock, err := l.lockName(ctx, "saved "+owner+" "+name)
	if err != nil {
		return nil, err
	}
	defer unlock()
	file := filepath.Join(l.dir, "saved", fmt.Sprintf("%x.tar", sha256.Sum256([]byte(owner+"\x00"+name))))
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		save := func(w io.Writer) error { return store.SaveImage(ctx, name, w) }
		if err := l.keep(file, fmt.Sprintf("image %q", name), save); err != nil {
			return nil, err
		}
	}
	img, err := l.Resolve(ctx, "tar:"+file)
	if err != nil {
		// The path of the file means nothing to the user.
		return nil, fmt.Errorf("image %q: %s", name, strings.ReplaceAll(err.Error(), file, filepath.Base(file)))
	}
	return img, nil
}

// keep writes a file completely or not at all, and no larger than an image may be. what names its
// content, for errors.
func (l *Library) keep(file, what string, fill func(io.Writer) error) error {
	most := 2 * l.limits.Bytes // headers and padding may be as much as small files
	return whole(filepath.Dir(file), 0o700, func(f *os.File) (string, error) {
		return filepath.Base(
			file,
		), fill(&boundedWriter{f, most, fmt.Errorf("%w: %s is larger than %d bytes", ErrHostile, what, most)})
	})
}

// whole writes a file in a directory, which it makes. It is there whole or not at all,
// under the name that fill returns.
func whole(dir string, mode fs.FileMode, fill func(f *os.File) (name string, err error)) error {
	if err := os.MkdirAll(dir, mode); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, ".new-")
	if err != nil {
		return err
	}
	name, err := fill(f)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), filepath.Join(dir, name))
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// boundedWriter fails with an error after a number of bytes.
type boundedWriter struct {
	io.Writer
	left int64
	why  error
}

func (b *boundedWriter) Write(p []byte) (int, error) {
	if b.left -= int64(len(p)); b.left < 0 {
		return 0, b.why
	}
	return b.Writer.Write(p)
}

// WriterContext is w, until the context has ended.
func WriterContext(ctx context.Context, w io.Writer) io.Writer {
	return writerFunc(func(p []byte) (int, error) {
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		return w.Write(p)
	})
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
