package stdstream

import (
	"context"
	"io"
	"os/exec"
	"time"
)

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

// Drain copies r to w until r ends. It reads on if w is nil or fails, because a process blocks when its
// pipe is full.
func Drain(w io.Writer, r io.Reader) {
	_, _ = io.Copy(&Sink{To: w}, r) // an error of reading is the end
}

// Run runs a program that changes nothing, and returns the beginning of what it prints. Its error is
// ctx's cause if ctx has ended.
func Run(ctx context.Context, limit int, program string, args ...string) (printed []byte, err error) {
	out := &First{Limit: limit}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir, cmd.WaitDelay = "/", time.Second // for processes that it may have started
	cmd.Stdout, cmd.Stderr = out, out
	err = cmd.Run()
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return out.Text, err
}
