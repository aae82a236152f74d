package docker

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// demultiplex copies the two streams that the engine sends over one connection:
// frames of 8 bytes (stream, three of padding, length) and their text. It reads
// to the end whatever the writers do, because a container whose output nobody
// takes stands still. A nil writer discards.
func demultiplex(r io.Reader, stdout, stderr io.Writer) error {
	to := [3]io.Writer{1: &sink{stdout}, 2: &sink{stderr}}
	var header [8]byte
	text := make([]byte, 32<<10) // frames may be larger, memory is not
	for {
		if _, err := io.ReadFull(r, header[:]); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		stream, size := header[0], binary.BigEndian.Uint32(header[4:])
		if stream != 1 && stream != 2 {
			return fmt.Errorf("output of stream %d: not Docker's framing", stream)
		}
		if _, err := io.CopyBuffer(to[stream], io.LimitReader(r, int64(size)), text); err != nil {
			return err
		}
	}
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
