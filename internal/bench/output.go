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
	one := &lockedWriter{w: stdout}
	return one, one
}

// lockedWriter is a writer that several goroutines may call at once.
type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (o *lockedWriter) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.w.Write(p)
}
