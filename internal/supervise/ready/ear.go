package ready

import (
	"bytes"
	"io"
	"sync"
	"time"
)

// maxLine is how much of a line is matched, in bytes.
const maxLine = 64 << 10

// An ear waits for a line that a process prints to one of its outputs.
type ear struct {
	matches func(line []byte) bool
	now     func() time.Duration

	once  sync.Once
	heard chan struct{}
	at    time.Duration // when heard was closed
}

func newEar(matches func(line []byte) bool, now func() time.Duration) *ear {
	return &ear{matches: matches, now: now, heard: make(chan struct{})}
}

// output is a writer for one of the outputs.
func (e *ear) output() io.Writer { return &lines{ear: e} }

// lines splits the output into lines.
type lines struct {
	ear  *ear
	line []byte // unfinished
}

// Write never fails, and matches nothing more after the line has come.
func (l *lines) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		select {
		case <-l.ear.heard:
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

func (l *lines) add(part []byte) {
	room := maxLine - len(l.line)
	l.line = append(l.line, part[:min(len(part), room)]...)
}

func (l *lines) end() {
	if l.ear.matches(bytes.TrimSuffix(l.line, []byte("\r"))) {
		l.ear.once.Do(func() {
			l.ear.at = l.ear.now()
			close(l.ear.heard)
		})
	}
	l.line = l.line[:0]
}
