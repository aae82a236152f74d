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
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"time"
)

// ErrFraming means that a stream does not consist of frames. Copy wraps it.
var ErrFraming = errors.New("the stream is not framed as stdout and stderr")

// Copy copies the frames of r to stdout and stderr; nil discards. It always reads to the end,
// whatever comes and whether writers fail or not, because a container blocks when nobody reads its
// output. A writer that fails gets no more output, and that is not an error. Copy returns an error
// unless the stream ended at the end of a frame. It needs little memory even for large frames.
func Copy(stdout, stderr io.Writer, r io.Reader) error {
	return copyFrames([3]io.Writer{1: &Sink{stdout}, 2: &Sink{stderr}}, r, nil)
}

// copyFrames is Copy to writers that take everything. With a short frame of stderr for which broken is true it
// discards this one and all that follows, and returns an error that wraps errBroken.
func copyFrames(to [3]io.Writer, r io.Reader, broken func(frame []byte) bool) error {
	text := make([]byte, 32<<10)
	for {
		err := frame(to, r, text, broken)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if errors.Is(err, ErrFraming) || errors.Is(err, errBroken) {
			_, _ = io.Copy(io.Discard, r) // the first error counts
		}
		if err != nil {
			return err
		}
	}
}

// errBroken means that the engine has lost the rest of the output, as it says itself.
var errBroken = errors.New("the engine lost output")

// longestBroken is how long a frame that says so is at most.
const longestBroken = 512

// frame copies one frame. Its error is io.EOF at the end of the stream.
func frame(to [3]io.Writer, r io.Reader, buf []byte, broken func(frame []byte) bool) error {
	var header [8]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return err
	}
	stream, size := header[0], int64(binary.BigEndian.Uint32(header[4:]))
	if stream != 1 && stream != 2 {
		return fmt.Errorf("output of stream %d: %w", stream, ErrFraming)
	}
	if broken != nil && stream == 2 && size <= longestBroken {
		n, err := io.ReadFull(r, buf[:size])
		if err == nil && broken(buf[:size]) {
			return fmt.Errorf("%w: %.200q", errBroken, buf[:size])
		}
		_, _ = to[stream].Write(buf[:n]) // it takes everything
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return err
	}
	n, err := io.CopyBuffer(to[stream], io.LimitReader(r, size), buf)
	if err == nil && n < size {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// A Sink takes everything. It passes on to To, unless it is nil, what comes until To fails.
type Sink struct{ To io.Writer }

func (s *Sink) Write(p []byte) (int, error) {
	if s.To != nil && len(p) > 0 {
		if _, err := s.To.Write(p); err != nil {
			s.To = nil
		}
	}
	return len(p), nil
}

// A First takes everything. It keeps the first Limit bytes as Text.
type First struct {
	Limit int
	Text  []byte
}

func (f *First) Write(p []byte) (int, error) {
	f.Text = append(f.Text, p[:min(len(p), f.Limit-len(f.Text))]...)
	return len(p), nil
}

// A Last takes everything. It keeps the last Limit bytes as Text.
type Last struct {
	Limit int
	Text  []byte
}

func (l *Last) Write(p []byte) (int, error) {
	l.Text = append(l.Text, p[max(0, len(p)-l.Limit):]...)
	l.Text = append(l.Text[:0], l.Text[max(0, len(l.Text)-l.Limit):]...)
	return len(p), nil
}

// Drain copies r to w until r ends. It reads on if w is nil or fails, because a process blocks when its
// pipe is full.
func Drain(w io.Writer, r io.Reader) {
	_, _ = io.Copy(&Sink{To: w}, r) // an error of reading is the end
}

// Run runs a program to its end, and returns the beginning of what it prints. Its error is ctx's cause if ctx
// has ended.
func Run(ctx context.Context, limit int, program string, args ...string) (printed []byte, err error) {
	out := &First{Limit: limit}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = "/", out, out
	err = RunCommand(cmd)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return out.Text, err
}

// holdTime is how long RunCommand waits for what holds the output of a program that has ended.
const holdTime = time.Second

// RunCommand is cmd.Run for a command that was made with a context. A program that has ended well has printed
// everything, though others may hold its output: what it started, and what this process is about to start,
// which holds every pipe of this process until its own exec.
func RunCommand(cmd *exec.Cmd) error {
	cmd.WaitDelay = holdTime
	if err := cmd.Run(); !errors.Is(err, exec.ErrWaitDelay) {
		return err
	}
	return nil
}
