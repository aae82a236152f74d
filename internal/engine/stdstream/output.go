package stdstream

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// An Output is a container's output while it is copied. The zero value is for a container that
// nobody is attached to.
type Output struct {
	// Broken reports whether a frame of stderr is no output, but how the engine says that it has lost the rest of
	// the output; nil: it never does. Set it before Follow.
	Broken func(frame []byte) bool

	mu     sync.Mutex
	close  func()     // closes the stream; nil unless it is open
	copied chan error // gets why the stream ended; nil if the output ended
	passed [3]*passed // by the number of the stream
	logged bool       // the log was asked for
	logErr error      // why it cannot be read
}

// A passed takes everything and passes it on. It counts the bytes, and leaves out the first skip.
type passed struct {
	to   Sink
	n    atomic.Int64
	skip int64
}

func (p *passed) Write(b []byte) (int, error) {
	p.n.Add(int64(len(b)))
	rest := b[min(p.skip, int64(len(b))):]
	p.skip -= int64(len(b) - len(rest))
	_, _ = p.to.Write(rest) // it takes everything
	return len(b), nil
}

// Follow begins to copy a stream (see Copy), until it ends or until Close closes it by calling
// close.
func (o *Output) Follow(stdout, stderr io.Writer, stream io.Reader, close func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.close, o.copied = close, make(chan error, 1)
	o.passed = [3]*passed{1: {to: Sink{stdout}}, 2: {to: Sink{stderr}}}
	go func(done chan<- error, to [3]io.Writer) {
		err := copyFrames(to, stream, o.Broken)
		if errors.Is(err, net.ErrClosed) {
			err = nil // Close has closed it
		}
		done <- err
	}(o.copied, [3]io.Writer{1: o.passed[1], 2: o.passed[2]})
}

// Drain returns when all output has been copied, or an error that says why it cannot be.
func (o *Output) Drain(ctx context.Context) error {
	o.mu.Lock()
	copied := o.copied
	o.mu.Unlock()
	if copied == nil {
		return nil
	}
	select {
	case err := <-copied:
		copied <- err // for the next call
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// logTimeout limits how long an engine may take to send the log of a container.
const logTimeout = 10 * time.Second

// DrainOr is Drain, and copies from the log of a container that has ended what its stream did not bring: on a busy
// machine engines sometimes lose output of a short container. Either they say so, see Broken, or the stream ends and
// has brought nothing. Most containers without output really printed nothing, so DrainOr first looks at the file of
// the log, which takes microseconds. A log elsewhere is not asked for, since that takes a call, in time that is
// measured.
func (o *Output) DrainOr(ctx context.Context, file string, log func(context.Context) (io.ReadCloser, error)) error {
	err := o.Drain(ctx)
	broken := errors.Is(err, errBroken)
	if err != nil && !broken {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.copied == nil || o.logged || !broken && o.passed[1].n.Load()+o.passed[2].n.Load() > 0 {
		return o.logErr
	}
	o.logged = true
	if info, err := os.Stat(file); !broken && (err != nil || info.Size() == 0) {
		return nil
	}
	o.logErr = o.copyLog(ctx, log)
	return o.logErr
}

// copyLog copies from the log what was not passed on.
func (o *Output) copyLog(ctx context.Context, log func(context.Context) (io.ReadCloser, error)) error {
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), logTimeout)
	defer cancel()
	stream, err := log(limited)
	if err != nil {
		return err
	}
	for _, p := range o.passed[1:] {
		p.skip = p.n.Load()
	}
	return errors.Join(copyFrames([3]io.Writer{1: o.passed[1], 2: o.passed[2]}, stream, nil), stream.Close())
}

// Close closes the stream. It may be called twice.
func (o *Output) Close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.close != nil {
		o.close()
		o.close = nil
	}
}
