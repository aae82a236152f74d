package supervise

import (
	"bytes"
	"fmt"
	"sync"
)

// maxErr is how much of a process's standard error is kept, in bytes.
const maxErr = 4 << 10

// output keeps the beginning of what a process prints.
type output struct {
	limit int

	mu      sync.Mutex
	bytes   []byte
	more    bool // there was more than limit
	wanted  int  // number of lines that close reached
	reached chan struct{}
}

func (o *output) open(limit int) { o.limit = limit }

// Write never fails, so that a process that prints too much does not block.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	kept := p[:min(len(p), o.limit-len(o.bytes))]
	o.more = o.more || len(kept) < len(p)
	o.bytes = append(o.bytes, kept...)
	o.tell()
	return len(p), nil
}

// awaitLines returns a channel that is closed once there are n lines, or more text than the
// limit.
func (o *output) awaitLines(n int) <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	reached := make(chan struct{})
	o.wanted, o.reached = n, reached
	o.tell() // the lines may be there already
	return reached
}

func (o *output) tell() {
	if o.reached != nil && (o.more || lines(o.bytes) >= o.wanted) {
		close(o.reached)
		o.reached = nil
	}
}

func lines(text []byte) int { return bytes.Count(text, []byte("\n")) }

// wholeLines returns the text without an unfinished last line.
func wholeLines(text []byte) []byte { return text[:bytes.LastIndexByte(text, '\n')+1] }

// text returns what was kept so far.
func (o *output) text() []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	return bytes.Clone(o.bytes)
}

// overflow returns err if there was more text than the limit.
func (o *output) overflow(err error) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.more {
		return err
	}
	return nil
}

// firstLineQuoted quotes the first line, to be appended to an error.
func (o *output) firstLineQuoted() string {
	if text := o.text(); len(bytes.TrimSpace(text)) > 0 {
		return "; it printed " + firstLine(text)
	}
	return ""
}

// firstLine quotes the beginning of the first line that is not empty.
func firstLine(text []byte) string {
	line, _, _ := bytes.Cut(bytes.TrimSpace(text), []byte("\n"))
	return fmt.Sprintf("%.200q", line)
}
