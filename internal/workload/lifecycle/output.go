package lifecycle

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"time"
)

// maxOutput is how much of a container's output is kept, in bytes.
const maxOutput = 4 << 10

// output keeps the beginning of a container's output, and the time of the first byte.
type output struct {
	now   func() time.Duration // nil if nobody needs the time
	began time.Duration        // when the first byte came, on the meter's clock

	mu    sync.Mutex
	bytes []byte
	whole chan struct{} // closed when there is a line; nil if nobody waits for one
}

// open makes the output keep the time of its first byte, and signal its first line.
func (o *output) open(now func() time.Duration) { o.now, o.whole = now, make(chan struct{}) }

// Write never fails, so that a container that prints too much does not block.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.bytes) == 0 && o.now != nil {
		o.began = o.now()
	}
	had := bytes.IndexByte(o.bytes, '\n') >= 0
	o.bytes = append(o.bytes, p[:min(len(p), maxOutput-len(o.bytes))]...)
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
		return fmt.Errorf("the process inside did not report that it is ready: %w", context.Cause(ctx))
	}
}

// text returns what was kept so far.
func (o *output) text() []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	return bytes.Clone(o.bytes)
}

// firstLineQuoted quotes the first line, to be appended to an error.
func (o *output) firstLineQuoted() string {
	line, _, _ := bytes.Cut(bytes.TrimSpace(o.text()), []byte("\n"))
	if len(line) == 0 {
		return ""
	}
	return fmt.Sprintf("; it printed %.200q", line)
}
