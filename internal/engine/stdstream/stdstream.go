// Package stdstream takes apart the stream in which Docker's API, and Podman's
// likewise, carry what a container prints to stdout and stderr: frames of 8
// bytes (1 for stdout or 2 for stderr, three of padding, the length as a
// big-endian number) and their text, as "Stream format" in Docker's reference
// of POST /containers/{id}/attach has it.
//
// Moby's own stdcopy is not used because it takes memory for the length that a
// frame claims, up to 4 GiB, takes a stream that ends within a frame for a
// complete one, and reads no further once a writer fails.
package stdstream

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// ErrFraming is wrapped by the error for a stream that is not framed.
var ErrFraming = errors.New("not framed as stdout and stderr")

// Copy copies what r carries to stdout and stderr; nil discards. It reads to
// the end whatever the writers do and whatever comes, because a container whose
// output nobody takes stands still. A writer that fails gets nothing more, and
// that is no error. It returns an error unless the stream ended where a frame
// did. Frames may be large, memory is not.
func Copy(stdout, stderr io.Writer, r io.Reader) error {
	to := [3]io.Writer{1: &Sink{stdout}, 2: &Sink{stderr}}
	text := make([]byte, 32<<10)
	for {
		err := frame(to, r, text)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if errors.Is(err, ErrFraming) {
			_, _ = io.Copy(io.Discard, r) // the first error counts
		}
		if err != nil {
			return err
		}
	}
}

// frame copies one frame. Its error is io.EOF at the end of the stream.
func frame(to [3]io.Writer, r io.Reader, buf []byte) error {
	var header [8]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return err
	}
	stream, size := header[0], int64(binary.BigEndian.Uint32(header[4:]))
	if stream != 1 && stream != 2 {
		return fmt.Errorf("output of stream %d: %w", stream, ErrFraming)
	}
	n, err := io.CopyBuffer(to[stream], io.LimitReader(r, size), buf)
	if err == nil && n < size {
		err = io.ErrUnexpectedEOF
	}
	return err
}
