package lifecycle

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"time"
)

// most is how much of a container's output is kept.
const most = 4 << 10

// output keeps the beginning of what a container prints, and when the first
// byte came.
type output struct {
	now   func() time.Duration // nil where nobody asks
	began time.Duration        // when the first byte came, on the meter's clock

	mu    sync.Mutex
	bytes []byte
	whole chan struct{} // closed when there is a line; nil where nobody asks
}

// open begins to note when output comes.
func (o *output) open(now func() time.Duration) { o.now, o.whole = now, make(chan struct{}) }

// Write never fails, so that a container that prints without end is drained.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.bytes) == 0 && o.now != nil {
		o.began = o.now()
	}
	had := bytes.IndexByte(o.bytes, '\n') >= 0
	o.bytes = append(o.bytes, p[:min(len(p), most-len(o.bytes))]...)
	if !had && o.whole != nil && bytes.IndexByte(o.bytes, '\n') >= 0 {
		close(o.whole)
	}
	return len(p), nil
}

// line returns when there is a line.
func (o *output) line(ctx context.Context) error {
	select {
	case <-o.whole:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("the process inside has not said that it runs: %w", context.Cause(ctx))
	}
}

// text returns what was kept so far.
func (o *output) text() []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	return bytes.Clone(o.bytes)
}

// said quotes the first line, for the end of an error.
func (o *output) said() string {
	line, _, _ := bytes.Cut(bytes.TrimSpace(o.text()), []byte("\n"))
	if len(line) == 0 {
		return ""
	}
	return fmt.Sprintf("; it said %.200q", line)
}
