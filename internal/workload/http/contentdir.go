package http

import (
	"crypto/rand"
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/tare-bench/tare/internal/bench"
)

// A contentDir is a directory of the host for a server: its content, its configuration, and
// the files that it writes.
type contentDir struct{ dir string }

func (s contentDir) content() string { return filepath.Join(s.dir, "content") }
func (s contentDir) config() string  { return filepath.Join(s.dir, "config") }
func (s contentDir) state() string   { return filepath.Join(s.dir, "state") }

// The files of the content: the one that clients request, and a small index page that
// servers expect.
const (
	document = "document"
	index    = "index.html"
)

// newContentDir makes a site below dir. Its document has size random bytes, which cannot be
// compressed on the way. Every user may read it.
func newContentDir(dir string, size int64) (s contentDir, err error) {
	if s.dir, err = os.MkdirTemp(dir, "http-"); err != nil {
		return s, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.remove())
		}
	}()
	if err := os.Chmod(s.dir, 0o755); err != nil {
		return s, err
	}
	for dir, mode := range map[string]os.FileMode{
		s.content(): 0o755, s.config(): 0o755, s.state(): 0o777 | os.ModeSticky,
	} {
		if err := errors.Join(os.Mkdir(dir, mode.Perm()), os.Chmod(dir, mode)); err != nil {
			return s, err
		}
	}
	if err := writeRandom(filepath.Join(s.content(), document), size); err != nil {
		return s, err
	}
	return s, s.write(filepath.Join(s.content(), index), "<!doctype html><title>tare</title>\n")
}

func (s contentDir) remove() error { return os.RemoveAll(s.dir) }

// write writes a file that every user may read, whatever the umask.
func (contentDir) write(file, text string) error {
	return errors.Join(os.WriteFile(file, []byte(text), 0o644), os.Chmod(file, 0o644))
}

func writeRandom(file string, size int64) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = io.CopyN(f, rand.Reader, size)
	return errors.Join(err, f.Chmod(0o644), f.Close())
}

// mounts makes the site visible inside, under the same paths. A plain process needs none.
func (s contentDir) mounts(e bench.Engine) []bench.Mount {
	if _, plain := bench.As[bench.DataKeeper](e); plain {
		return nil
	}
	return []bench.Mount{
		{Type: "bind", Source: s.content(), Target: s.content(), ReadOnly: true},
		{Type: "bind", Source: s.config(), Target: s.config(), ReadOnly: true},
		{Type: "bind", Source: s.state(), Target: s.state()},
	}
}
