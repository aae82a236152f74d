package ready

import (
	"bytes"
	"io"
	"sync"
	"time"
)

// maxLine is how much of a line is matched, in bytes.
const maxLine = 64 << 10

// A logWatcher waits for a line that a process prints to one of its outputs.
type logWatcher struct {
	matches func(line []byte) bool
	now     func() time.Duration

	once sync.Once
	seen chan struct{}
	at   time.Duration // when heard was closed
}

func newLogWatcher(matches func(line []byte) bool, now func() time.Duration) *logWatcher {
	return &logWatcher{matches: matches, now: now, seen: make(chan struct{})}
}

// output is a writer for one of the outputs.
func (e *logWatcher) output() io.Writer { return &lineSplitter{logWatcher: e} }

// lineSplitter splits the output into lines.
type lineSplitter struct {
	logWatcher *logWatcher
	line       []byte // unfinished
}

// Write never fails, and matches nothing more after the line has come.
func (l *lineSplitter) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		select {
		case <-l.logWatcher.seen:
			return n, nil
		default:
		}
		part, rest, ended := bytes.Cut(p, []byte("\n"))
		l.add(part)
		if p = rest; ended {
			l.end()
		}
	}
	return n, nil
}

func (l *lineSplitter) add(part []byte) {
	room := maxLine - len(l.line)
	l.line = append(l.line, part[:min(len(part), room)]...)
}

func (l *lineSplitter) end() {
	if l.logWatcher.matches(bytes.TrimSuffix(l.line, []byte("\r"))) {
		l.logWatcher.once.Do(func() {
			l.logWatcher.at = l.logWatcher.now()
			close(l.logWatcher.seen)
		})
	}
	l.line = l.line[:0]
}
