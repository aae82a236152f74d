package lifecycle

import (
	"bytes"
	"fmt"
	"time"
)

// most is how much of a container's output is kept.
const most = 4 << 10

// output keeps the beginning of what a container prints, and when the first
// byte came.
type output struct {
	now   func() time.Duration // nil where nobody asks
	began time.Duration        // when the first byte came, on the meter's clock
	bytes []byte
}

// Write never fails, so that a container that prints without end is drained.
func (o *output) Write(p []byte) (int, error) {
	if len(o.bytes) == 0 && o.now != nil {
		o.began = o.now()
	}
	o.bytes = append(o.bytes, p[:min(len(p), most-len(o.bytes))]...)
	return len(p), nil
}

// said quotes the first line, for the end of an error.
func (o *output) said() string {
	line, _, _ := bytes.Cut(bytes.TrimSpace(o.bytes), []byte("\n"))
	if len(line) == 0 {
		return ""
	}
	return fmt.Sprintf("; it said %.200q", line)
}
