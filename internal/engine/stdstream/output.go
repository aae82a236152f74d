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
	mu       sync.Mutex
	close    func()     // closes the stream; nil unless it is open
	copied   chan error // gets why the stream ended; nil if the output ended
	received *counter   // how much the stream has brought
	stdout   io.Writer
	stderr   io.Writer
	logged   bool  // the log was asked for
	logErr   error // why it cannot be read
}

// A counter counts the bytes that are read through it.
type counter struct {
	io.Reader
	n atomic.Int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n.Add(int64(n))
	return n, err
}

// Follow begins to copy a stream (see Copy), until it ends or until Close closes it by calling
// close.
func (o *Output) Follow(stdout, stderr io.Writer, stream io.Reader, close func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	came := &counter{Reader: stream}
	o.close, o.copied, o.received, o.stdout, o.stderr = close, make(chan error, 1), came, stdout, stderr
	go func(done chan<- error) {
		err := Copy(stdout, stderr, came)
		if errors.Is(err, net.ErrClosed) {
			err = nil // Close has closed it
		}
		done <- err
	}(o.copied)
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

// DrainOr is Drain, and copies the log of a container that has ended and whose stream brought
// nothing: on a busy machine engines sometimes end the stream before they have sent the output
// (Podman 4.3 once among 280 containers, at a load of 10). Most containers without output really
// printed nothing, so DrainOr first looks at the file of the log, which takes microseconds. A log
// elsewhere is not asked for, since that takes a call, in time that is measured.
func (o *Output) DrainOr(ctx context.Context, file string, log func(context.Context) (io.ReadCloser, error)) error {
	if err := o.Drain(ctx); err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.received == nil || o.received.n.Load() > 0 || o.logged {
		return o.logErr
	}
	o.logged = true
	if info, err := os.Stat(file); err != nil || info.Size() == 0 {
		return nil
	}
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), logTimeout)
	defer cancel()
	stream, err := log(limited)
	if err == nil {
		err = errors.Join(Copy(o.stdout, o.stderr, stream), stream.Close())
	}
	o.logErr = err
	return err
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
