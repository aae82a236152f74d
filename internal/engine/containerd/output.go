package containerd

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/containerd/containerd/v2/pkg/cio"
	"golang.org/x/sys/unix"

	"github.com/tare-bench/tare/internal/bench"
)

// An output is how a process prints: two FIFOs, into which the shim copies.
// They are opened before the shim opens them, and read once it has: a FIFO
// that nobody writes to is at its end.
type output struct {
	names  [2]string // of stdout and stderr
	files  [2]*os.File
	begun  sync.Once
	copied chan struct{} // closed when everything was copied
}

// newOutput makes the FIFOs of a process below dir.
func newOutput(dir, id string) (*output, error) {
	o := &output{copied: make(chan struct{})}
	for i, stream := range [2]string{"stdout", "stderr"} {
		o.names[i] = filepath.Join(dir, id+"-"+stream)
		if err := o.open(i); err != nil {
			o.close()
			return nil, err
		}
	}
	return o, nil
}

func (o *output) open(i int) error {
	if err := unix.Mkfifo(o.names[i], 0o600); err != nil {
		return &os.PathError{Op: "mkfifo", Path: o.names[i], Err: err}
	}
	f, err := os.OpenFile(o.names[i], os.O_RDONLY|syscall.O_NONBLOCK, 0)
	o.files[i] = f
	return err
}

// creator gives containerd's client the FIFOs of o, which o itself looks after.
func (o *output) creator(string) (cio.IO, error) { return ends{o}, nil }

// copy begins to copy what is printed, until no process can print any more. A
// nil writer discards, and so does one from its first error on, because a
// process whose pipe is full stands still. Only the first call counts.
func (o *output) copy(stdout, stderr io.Writer) {
	o.begun.Do(func() {
		var both sync.WaitGroup
		stdout, stderr = bench.Outputs(stdout, stderr)
		for i, w := range [2]io.Writer{stdout, stderr} {
			both.Go(func() { drain(w, o.files[i]) })
		}
		go func() {
			both.Wait()
			close(o.copied)
		}()
	})
}

func drain(w io.Writer, r io.Reader) {
	if w == nil {
		w = io.Discard
	}
	if _, err := io.Copy(w, r); err != nil {
		_, _ = io.Copy(io.Discard, r) // nobody is left to tell
	}
}

// wait returns when everything that was printed has been copied.
func (o *output) wait(ctx context.Context) error {
	select {
	case <-o.copied:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// unlink removes the names of the FIFOs, once the shim has opened them. So
// nothing of them is left on disk, whatever happens.
func (o *output) unlink() error {
	var err error
	for _, name := range o.names {
		if e := os.Remove(name); e != nil && !errors.Is(e, os.ErrNotExist) {
			err = errors.Join(err, e)
		}
	}
	return err
}

// close ends the copying too.
func (o *output) close() {
	_ = o.unlink() // the directory goes with the run
	for _, f := range o.files {
		if f != nil {
			_ = f.Close() // it was only read
		}
	}
}

// ends are the FIFOs as containerd's client wants them.
type ends struct{ *output }

func (e ends) Config() cio.Config { return cio.Config{Stdout: e.names[0], Stderr: e.names[1]} }
func (e ends) Cancel()            {}
func (e ends) Wait()              {}
func (e ends) Close() error       { return nil }
