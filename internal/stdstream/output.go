package stdstream

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
)

// An Output is what a container prints, while it is copied. The zero value is that of a
// container which nobody is attached to.
type Output struct {
	mu     sync.Mutex
	close  func()     // closes the stream; nil unless it is open
	copied chan error // gets what ended the stream, nil if the output did
}

// Follow begins to copy a stream, see Copy, until it ends or Close closes it with close.
func (o *Output) Follow(stdout, stderr io.Writer, stream io.Reader, close func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.close, o.copied = close, make(chan error, 1)
	go func(done chan<- error) {
		err := Copy(stdout, stderr, stream)
		if errors.Is(err, net.ErrClosed) {
			err = nil // Close has closed it
		}
		done <- err
	}(o.copied)
}

// Drain returns when everything that was printed has been copied, or with the reason why
// it cannot be.
func (o *Output) Drain(ctx context.Context) error {
	o.mu.Lock()
	copied := o.copied
	o.mu.Unlock()
	if copied == nil {
		return nil
	}
	select {
	case err := <-copied:
		copied <- err // for the next to wait
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Close closes the stream. Twice is fine.
func (o *Output) Close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.close != nil {
		o.close()
		o.close = nil
	}
}
