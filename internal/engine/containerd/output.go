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
	"github.com/tare-bench/tare/internal/engine/stdstream"
)

// An output is how a process prints: two FIFOs, into which the shim copies. They are opened before
// the shim opens them, and read only afterwards, because reading a FIFO without a writer returns
// its end.
type output struct {
	names     [2]string // of stdout and stderr
	files     [2]*os.File
	startOnce sync.Once
	copied    chan struct{} // closed when all output was copied
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

// creator gives the FIFOs of o to containerd's client. They remain o's to close and remove.
func (o *output) creator(string) (cio.IO, error) { return fifoSet{o}, nil }

// copy begins to copy the output, until no process can print any more. Output for a nil writer is
// discarded, and so is all output after a writer's first error, because a process blocks when its
// pipe is full. Only the first call has an effect.
func (o *output) copy(stdout, stderr io.Writer) {
	o.startOnce.Do(func() {
		var both sync.WaitGroup
		stdout, stderr = bench.Outputs(stdout, stderr)
		for i, w := range [2]io.Writer{stdout, stderr} {
			both.Go(func() { stdstream.Drain(w, o.files[i]) })
		}
		go func() {
			both.Wait()
			close(o.copied)
		}()
	})
}

// wait returns when all output has been copied.
func (o *output) wait(ctx context.Context) error {
	select {
	case <-o.copied:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// unlink removes the names of the FIFOs once the shim has opened them. So they cannot be left on
// disk, whatever happens.
func (o *output) unlink() error {
	var err error
	for _, name := range o.names {
		if e := os.Remove(name); e != nil && !errors.Is(e, os.ErrNotExist) {
			err = errors.Join(err, e)
		}
	}
	return err
}

// close also ends the copying.
func (o *output) close() {
	_ = o.unlink() // the run's end removes the directory
	for _, f := range o.files {
		if f != nil {
			_ = f.Close() // only reads: nothing is lost
		}
	}
}

// fifoSet are the FIFOs in the form that containerd's client needs.
type fifoSet struct{ *output }

func (e fifoSet) Config() cio.Config { return cio.Config{Stdout: e.names[0], Stderr: e.names[1]} }
func (e fifoSet) Cancel()            {}
func (e fifoSet) Wait()              {}
func (e fifoSet) Close() error       { return nil }
