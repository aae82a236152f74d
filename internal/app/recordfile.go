package app

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/store/record"
)

// A recordFile keeps one run as records in a file, which a client can follow while it grows. What is
// in it is there after a crash of this process, and of the machine. The client gets what was appended
// when it is published: sending it would disturb what is measured.
type recordFile struct {
	EmptyStore
	path string

	file   *os.File       // nil before the run begins
	writer *record.Writer // nil before the run begins
	size   int64          // what was appended
	// lost is the line that could not be written, if any: nothing is appended after it. Who follows the file gets it too.
	lost []byte

	mu        sync.Mutex
	followers int
	sent      int64         // how much each follower has sent
	published chan struct{} // closed by publish
	moved     chan struct{} // closed when followers or sent changes
}

// publishTime is how long a run waits for its records to be sent.
const publishTime = 5 * time.Second

func newRecordFile(path string) *recordFile {
	return &recordFile{path: path, published: make(chan struct{}), moved: make(chan struct{})}
}

// Write implements io.Writer. It appends a line, or nothing: half a line could not be read.
func (f *recordFile) Write(p []byte) (int, error) {
	n, err := f.file.Write(p)
	if err == nil {
		err = f.file.Sync()
	}
	if err != nil {
		if f.size > 0 { // a run without its header is none
			f.lost = bytes.Clone(p)
		}
		return 0, errors.Join(err, f.file.Truncate(f.size))
	}
	f.size += int64(n)
	return n, nil
}

// publish lets who follows the file send what was appended, and waits until that is done, but not for
// long. The goroutine that appends calls it.
func (f *recordFile) publish(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, publishTime)
	defer cancel()
	f.mu.Lock()
	close(f.published)
	f.published = make(chan struct{})
	for f.followers > 0 && f.sent < f.size && ctx.Err() == nil {
		moved := f.moved
		f.mu.Unlock()
		select {
		case <-moved:
		case <-ctx.Done():
		}
		f.mu.Lock()
	}
	f.mu.Unlock()
}

// move notes that followers have come or gone, and what has been sent.
func (f *recordFile) move(followers int, sent int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.followers += followers
	f.sent = sent
	close(f.moved)
	f.moved = make(chan struct{})
}

// next returns a channel that is closed when something is published after this call.
func (f *recordFile) next() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.published
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

// stream sends the file, and what is published of it until ended is closed, and then what could not be
// written. One client at a time follows it.
func (f *recordFile) stream(ctx context.Context, w http.ResponseWriter, ended <-chan struct{}) error {
	file, err := os.Open(f.path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // it was only read
	f.move(1, 0)
	defer f.move(-1, 0)
	control := http.NewResponseController(w)
	for sent, last := int64(0), false; ; {
		more := f.next()
		n, err := io.Copy(w, file)
		if err == nil && last {
			_, err = w.Write(f.lost)
		}
		if err == nil {
			err = control.Flush()
		}
		if err != nil || last {
			return nil // the client is gone, or has everything
		}
		sent += n
		f.move(0, sent)
		select {
		case <-more:
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
