package podman

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// errFraming is wrapped by the error for a stream that is not framed.
var errFraming = errors.New("not Podman's framing")

// demultiplex copies the two streams that Podman sends over one connection:
// frames of 8 bytes (stream, three of padding, length) and their text. It reads
// to the end whatever the writers do and whatever comes, because a container
// whose output nobody takes stands still. It returns an error unless the stream
// ended where a frame did. A nil writer discards.
func demultiplex(r io.Reader, stdout, stderr io.Writer) error {
	to := [3]io.Writer{1: &sink{stdout}, 2: &sink{stderr}}
	text := make([]byte, 32<<10) // frames may be larger, memory is not
	for {
		err := frame(r, to, text)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if errors.Is(err, errFraming) {
			_, _ = io.Copy(io.Discard, r) // the first error counts
		}
		if err != nil {
			return err
		}
	}
}

// frame copies one frame. Its error is io.EOF at the end of the stream.
func frame(r io.Reader, to [3]io.Writer, buf []byte) error {
	var header [8]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return err
	}
	stream, size := header[0], int64(binary.BigEndian.Uint32(header[4:]))
	if stream != 1 && stream != 2 {
		return fmt.Errorf("output of stream %d: %w", stream, errFraming)
	}
	n, err := io.CopyBuffer(to[stream], io.LimitReader(r, size), buf)
	if err == nil && n < size {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// A sink takes everything. It passes on to w what comes until w fails.
type sink struct{ w io.Writer }

func (s *sink) Write(p []byte) (int, error) {
	if s.w != nil {
		if _, err := s.w.Write(p); err != nil {
			s.w = nil
		}
	}
	return len(p), nil
}
