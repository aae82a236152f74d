package app

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"sync"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/store/record"
)

// A recordFile keeps one run as records in a file, which others can follow while it grows. What is
// in it is there after a crash of this process, and of the machine.
type recordFile struct {
	EmptyStore
	path string

	mu      sync.Mutex
	file    *os.File       // nil before the run begins
	writer  *record.Writer // nil before the run begins
	changed chan struct{}  // closed when something is appended
}

func newRecordFile(path string) *recordFile {
	return &recordFile{path: path, changed: make(chan struct{})}
}

// Write implements io.Writer. It appends a line.
func (f *recordFile) Write(p []byte) (int, error) {
	n, err := f.file.Write(p)
	if err == nil {
		err = f.file.Sync()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	close(f.changed)
	f.changed = make(chan struct{})
	return n, err
}

// next returns a channel that is closed when something is appended after this call.
func (f *recordFile) next() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.changed
}

// Create implements bench.Store.
func (f *recordFile) Create(_ context.Context, h bench.Header) (w bench.RunWriter, err error) {
	if f.file, err = os.OpenFile(f.path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600); err != nil {
		return nil, err
	}
	f.writer, err = record.NewWriter(f, h)
	return f.writer, err
}

// Resume implements bench.Store, for the run that was put into the file.
func (f *recordFile) Resume(_ context.Context, _ string, r bench.Resumption) (bench.RunWriter, error) {
	if f.writer == nil {
		return nil, fs.ErrNotExist
	}
	return f.writer, f.writer.Resume(r)
}

// Remove implements bench.Store.
func (f *recordFile) Remove(context.Context, string) error { return os.Remove(f.path) }

// put writes a whole run, or the beginning of one, into the file.
func (f *recordFile) put(ctx context.Context, run *bench.Run) error {
	if run.End != nil {
		return bench.ErrFinished
	}
	var w bench.RunWriter
	for e, err := range record.Events(run) {
		switch {
		case err != nil:
		case e.Header != nil:
			w, err = f.Create(ctx, *e.Header)
		case e.Resumption != nil:
			err = f.writer.Resume(*e.Resumption)
		case e.Sample != nil:
			err = w.Append(ctx, *e.Sample)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// stream sends the file, and what is appended to it until ended is closed.
func (f *recordFile) stream(ctx context.Context, w http.ResponseWriter, ended <-chan struct{}) error {
	file, err := os.Open(f.path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // it was only read
	control := http.NewResponseController(w)
	for last := false; ; {
		grown := f.next()
		if _, err := io.Copy(w, file); err != nil {
			return nil // the client is gone
		}
		if err := control.Flush(); err != nil || last {
			return nil
		}
		select {
		case <-grown:
		case <-ended:
			last = true // once more, for what came before the end
		case <-ctx.Done():
			return nil
		}
	}
}

// close closes the file.
func (f *recordFile) close() error {
	if f.file == nil {
		return nil
	}
	return f.file.Close()
}

// errNoRecords is the error of fetching what is not there.
var errNoRecords = errors.New("this machine has nothing of the run")
