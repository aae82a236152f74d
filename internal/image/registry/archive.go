package registry

import (
	"archive/tar"
	"errors"
	"io"
)

// endOfArchive are the two blocks of zeros that end an archive.
const endOfArchive = 1024

// errEnd means that an archive stops without an end.
var errEnd = errors.New("the archive has no end: it is truncated, or the program that wrote it is faulty")

// entries copies an archive without its end. It reads nothing after the end.
func entries(w io.Writer, archive io.Reader) error {
	source, late := &source{r: archive}, &delay{w: w}
	for entry := tar.NewReader(io.TeeReader(source, late)); ; {
		_, err := entry.Next() // also skips the content of the entry before
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

// source remembers whether it has reached the end of its reader.
type source struct {
	r     io.Reader
	ended bool
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	s.ended = s.ended || n == 0 && errors.Is(err, io.EOF)
	return n, err
}

// delay holds back as many bytes as the end of an archive has.
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
