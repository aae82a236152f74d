package remote

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/tare-bench/tare/internal/bench"
)

// A container is a container that a client has asked to make, or to remove.
type container struct {
	ctx    context.Context // ends when the container is to be removed
	cancel context.CancelFunc

	createMu  sync.Mutex // held while the container is made or removed
	requested bool
	gone      bool

	mu              sync.Mutex // protects what follows
	engine          bench.Engine
	engineContainer bench.Container // nil before it is made and after it is removed
	spec            bench.Spec
	output          *output

	once  sync.Once
	ended chan struct{} // closed when a call of wait has returned
}

func newContainer(ctx context.Context) *container {
	c := &container{ended: make(chan struct{})}
	c.ctx, c.cancel = context.WithCancel(ctx)
	return c
}

var (
	errState          = errors.New("not possible in the container's present state")
	errAlreadyCreated = errors.New("the client used a container's number twice")
)

// create makes the container, unless ctx has ended or the container is to be removed.
func (c *container) create(ctx context.Context, e bench.Engine, spec bench.Spec) (string, error) {
	c.createMu.Lock()
	defer c.createMu.Unlock()
	if c.requested {
		return "", errAlreadyCreated
	}
	c.requested = true
	if c.gone {
		return "", context.Canceled
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.ctx, cancel)()
	made, err := e.Create(ctx, spec)
	if err != nil {
		return "", err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.engine, c.engineContainer, c.spec = e, made, spec
	return made.ID(), nil
}

// remove removes the container in any state. It returns the ID, if there is one, and whether the
// client had asked for the container.
func (c *container) remove(ctx context.Context) (id string, asked bool, err error) {
	c.cancel()
	c.createMu.Lock()
	defer c.createMu.Unlock()
	c.gone = true
	c.mu.Lock()
	made, out := c.engineContainer, c.output
	c.mu.Unlock()
	if out != nil {
		out.stop() // the container must not wait for a client that no longer reads
	}
	if made == nil {
		return "", c.requested, nil
	}
	if err := made.Remove(ctx); err != nil {
		return "", c.requested, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.engineContainer = nil
	return made.ID(), c.requested, nil
}

// now returns the engine's container, or an error if there is none.
func (c *container) now() (bench.Container, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.engineContainer == nil {
		return nil, fmt.Errorf("no such container: %w", errState)
	}
	return c.engineContainer, nil
}

// wait waits for the container's end. It runs only if the client asks, because some engines poll
// their daemon.
func (c *container) wait(ctx context.Context) (bench.Exit, error) {
	made, err := c.now()
	if err != nil {
		return bench.Exit{}, err
	}
	exit, err := made.Wait(ctx)
	if err == nil {
		c.once.Do(func() { close(c.ended) })
	}
	return exit, err
}

// attach sends the container's output until wait has told the client that the container has ended;
// all output is sent by then. It returns an error only before it has sent anything.
func (c *container) attach(w http.ResponseWriter, r *http.Request, ask Request) error {
	made, err := c.now()
	if err != nil {
		return err
	}
	out := newOutput(w)
	defer out.close()
	// The engine may use these writers as long as the container runs.
	if err := made.Attach(r.Context(), out.stream(ask.Stdout, 1), out.stream(ask.Stderr, 2)); err != nil {
		return err
	}
	c.mu.Lock()
	c.output = out
	c.mu.Unlock()
	if err := out.begin(); err != nil {
		return nil // the client is gone
	}
	select {
	case <-c.ended: // all output has been sent
	case <-c.ctx.Done():
		out.stop()
	case <-r.Context().Done():
		out.stop()
	}
	return nil
}

// addresser returns the engine as a bench.Addresser, and its container.
func (c *container) addresser() (bench.Addresser, bench.Container, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.engineContainer == nil {
		return nil, nil, fmt.Errorf("no such container: %w", errState)
	}
	a, ok := bench.As[bench.Addresser](c.engine)
	if !ok {
		return nil, nil, fmt.Errorf("%w: engine %s does not report the addresses of its containers",
			bench.ErrUnsupported, c.engine.Name())
	}
	return a, c.engineContainer, nil
}

// An output sends a container's output to the client, in the frames of package stdstream.
type output struct {
	to      http.ResponseWriter
	control *http.ResponseController

	overMu sync.Mutex // protects over; never held for long
	over   bool       // the handler is about to return

	sendMu sync.Mutex // held while data is sent
	closed bool
}

func newOutput(w http.ResponseWriter) *output {
	return &output{to: w, control: http.NewResponseController(w)}
}

// stream is the writer of stdout (1) or stderr (2); nil if the client does not want it.
func (o *output) stream(wanted bool, number byte) io.Writer {
	if !wanted {
		return nil
	}
	return &frames{o, number}
}

// begin tells the client that it is attached.
func (o *output) begin() error {
	o.sendMu.Lock()
	defer o.sendMu.Unlock()
	o.to.WriteHeader(http.StatusOK)
	return o.control.Flush()
}

// stop makes the present and all later writes fail.
func (o *output) stop() {
	o.overMu.Lock()
	defer o.overMu.Unlock()
	if !o.over {
		_ = o.control.SetWriteDeadline(time.Unix(1, 0)) // HTTP/2 has deadlines
	}
}

// close ends the output, because nothing may write to a response after its handler has returned.
func (o *output) close() {
	o.overMu.Lock()
	o.over = true
	o.overMu.Unlock()
	o.sendMu.Lock()
	defer o.sendMu.Unlock()
	o.closed = true
}

var errClosed = errors.New("the client no longer reads the output")

// frames sends frames of one stream.
type frames struct {
	output *output
	number byte
}

// Write implements io.Writer. It sends the data at once.
func (f *frames) Write(p []byte) (int, error) {
	o := f.output
	o.sendMu.Lock()
	defer o.sendMu.Unlock()
	if o.closed {
		return 0, errClosed
	}
	header := [8]byte{f.number}
	binary.BigEndian.PutUint32(header[4:], uint32(len(p)))
	if _, err := o.to.Write(header[:]); err != nil {
		return 0, err
	}
	n, err := o.to.Write(p)
	if err == nil {
		err = o.control.Flush()
	}
	return n, err
}
