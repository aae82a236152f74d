// Package stdstream splits the stream in which the APIs of Docker and Podman carry a container's
// stdout and stderr. It consists of frames: 8 bytes (1 for stdout or 2 for stderr, three bytes of
// padding, the length as a big-endian number) and their text. See "Stream format" in Docker's
// reference of POST /containers/{id}/attach.
//
// tare does not use Moby's own stdcopy for three reasons: it allocates the length that a frame
// claims, up to 4 GiB; it accepts a stream that ends within a frame as complete; and it stops
// reading once a writer fails.
package stdstream

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// ErrFraming means that a stream does not consist of frames. Copy wraps it.
var ErrFraming = errors.New("the stream is not framed as stdout and stderr")

// Copy copies the frames of r to stdout and stderr; nil discards. It always reads to the end,
// whatever comes and whether writers fail or not, because a container blocks when nobody reads its
// output. A writer that fails gets no more output, and that is not an error. Copy returns an error
// unless the stream ended at the end of a frame. It needs little memory even for large frames.
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
