package bench

import (
	"io"
	"reflect"
	"sync"
)

// Outputs returns writers for the output streams of a process that two goroutines may
// call at once. If both are the same writer, it is called by one at a time, as in
// os/exec. Nil stays nil.
func Outputs(stdout, stderr io.Writer) (io.Writer, io.Writer) {
	if stdout == nil || !reflect.ValueOf(stdout).Comparable() || stdout != stderr {
		return stdout, stderr
	}
	one := &oneByOne{w: stdout}
	return one, one
}

// oneByOne is a writer that several goroutines may call at once.
type oneByOne struct {
	mu sync.Mutex
	w  io.Writer
}

func (o *oneByOne) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.w.Write(p)
}
