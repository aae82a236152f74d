package registry

import (
	"archive/tar"
	"errors"
	"io"
)

// endOfArchive are the two blocks of zeros that end an archive.
const endOfArchive = 1024

// errEnd is the error for an archive that just stops.
var errEnd = errors.New("the archive has no end: it is cut, or what wrote it is broken")

// entries copies an archive but for its end. What comes after the end is not read.
func entries(w io.Writer, archive io.Reader) error {
	source, late := &source{r: archive}, &delay{w: w}
	for entry := tar.NewReader(io.TeeReader(source, late)); ; {
		_, err := entry.Next() // which also passes over what the entry before it holds
		switch {
		case errors.Is(err, io.EOF) && (source.ended || len(late.held) != endOfArchive):
			return errEnd
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

// source remembers that there was nothing more to read.
type source struct {
	r     io.Reader
	ended bool
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	s.ended = s.ended || n == 0 && errors.Is(err, io.EOF)
	return n, err
}

// delay holds back as much as the end of an archive is long.
type delay struct {
	w    io.Writer
	held []byte
}

func (d *delay) Write(p []byte) (int, error) {
	d.held = append(d.held, p...)
	if more := len(d.held) - endOfArchive; more > 0 {
		if _, err := d.w.Write(d.held[:more]); err != nil {
			return 0, err
		}
		d.held = append(d.held[:0], d.held[more:]...)
	}
	return len(p), nil
}
