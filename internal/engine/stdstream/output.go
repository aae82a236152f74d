package stdstream

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
)

// An Output is a container's output while it is copied. The zero value is for a container that
// nobody is attached to.
type Output struct {
	mu       sync.Mutex
	close    func()     // closes the stream; nil unless it is open
	copied   chan error // gets why the stream ended; nil if the output ended
	received *counter   // how much the stream has brought
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
	o.close, o.copied, o.received = close, make(chan error, 1), came
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

// Empty reports whether a stream is attached and nothing has come yet.
func (o *Output) Empty() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.received != nil && o.received.n.Load() == 0
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
