package postgres

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"
)

// A serverLog keeps of what the server prints the last lines, and those that mean that a trial
// is worth nothing. Its writers take everything and never block.
type serverLog struct {
	mu     sync.Mutex
	last   []string // at most keptLines
	severe []string // at most keptLines

	now         func() time.Duration // CLOCK_MONOTONIC; nil = checkpoints are not noted
	checkpoints []span               // at most keptCheckpoints
}

// A span is the time of one checkpoint.
type span struct{ from, to time.Duration } // to is 0 while it is under way

const (
	keptLines = 20
	maxLine   = 400 // bytes kept of a line

	keptCheckpoints = 1000
)

// writer returns a writer for one stream of the process.
func (l *serverLog) writer() io.Writer { return &logWriter{log: l} }

// A logWriter cuts a stream into lines.
type logWriter struct {
	log  *serverLog
	line []byte // the unfinished one, at most maxLine of it
}

// Write implements io.Writer. It never fails.
func (w *logWriter) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		part, rest, whole := bytes.Cut(p, []byte("\n"))
		w.line = append(w.line, part[:min(len(part), maxLine-len(w.line))]...)
		if whole {
			w.log.add(string(w.line))
			w.line = w.line[:0]
		}
		p = rest
	}
	return n, nil
}

func (l *serverLog) add(line string) {
	line = strings.ToValidUTF8(strings.TrimSpace(line), "")
	if line == "" {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last = appendBounded(l.last, line)
	l.noteCheckpoint(line)
	if isSevere(line) && len(l.severe) < keptLines {
		l.severe = append(l.severe, line) // the first ones tell the cause
	}
}

// noteCheckpoint notes when a checkpoint begins and ends: when the line comes.
func (l *serverLog) noteCheckpoint(line string) {
	if l.now == nil {
		return
	}
	underWay := len(l.checkpoints) > 0 && l.checkpoints[len(l.checkpoints)-1].to == 0
	switch {
	case strings.Contains(line, "checkpoint starting:") && !underWay && len(l.checkpoints) < keptCheckpoints:
		l.checkpoints = append(l.checkpoints, span{from: l.now()})
	case strings.Contains(line, "checkpoint complete:") && underWay:
		l.checkpoints[len(l.checkpoints)-1].to = l.now()
	}
}

// checkpointing returns for what part of each second after from a checkpoint was under way; nil if none
// was in any.
func (l *serverLog) checkpointing(from time.Duration, seconds int) (shares []float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	shares, found := make([]float64, seconds), false
	for _, c := range l.checkpoints {
		for i := range shares {
			begin := from + time.Duration(i)*time.Second
			end := begin + time.Second
			if c.to != 0 {
				end = min(end, c.to)
			}
			if overlap := end - max(begin, c.from); overlap > 0 {
				shares[i] += overlap.Seconds()
				found = true
			}
		}
	}
	if !found {
		return nil
	}
	return shares
}

func appendBounded(lines []string, line string) []string {
	if len(lines) == keptLines {
		lines = lines[1:]
	}
	return append(lines, line)
}

// isSevere reports whether a line of the log says that the server or one of its processes failed,
// or that it recovers from a crash. A client that asks before the server is ready is no failure.
func isSevere(line string) bool {
	if strings.Contains(line, "the database system is starting up") {
		return false
	}
	for _, words := range []string{
		"PANIC:", "FATAL:", "terminated by signal", "was not properly shut down", "automatic recovery",
		"reinitializing", "redo starts",
	} {
		if strings.Contains(line, words) {
			return true
		}
	}
	return false
}

// err returns an error if the log tells of a failure.
func (l *serverLog) err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.severe) == 0 {
		return nil
	}
	return fmt.Errorf("the server's log says: %s", strings.Join(l.severe[:min(2, len(l.severe))], "; "))
}

// forget forgets the failures so far: what an entry point tries before there is a cluster is its own business.
func (l *serverLog) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.severe = nil
}

// errSoon is err for somebody whose connection has just broken: the server may be about to say why.
func (l *serverLog) errSoon(ctx context.Context) error {
	const within, every = 500 * time.Millisecond, 10 * time.Millisecond
	for range int(within / every) {
		if err := l.err(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return l.err()
		case <-time.After(every):
		}
	}
	return nil
}

// text returns everything that was kept, the severe lines first.
func (l *serverLog) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(append(append([]string(nil), l.severe...), l.last...), "\n")
}

// latest returns up to n of the last lines.
func (l *serverLog) latest(n int) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.last[max(0, len(l.last)-n):])
}

// lastSevere is the last line that tells of a failure; empty without one.
func (l *serverLog) lastSevere() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.severe) == 0 {
		return ""
	}
	return l.severe[len(l.severe)-1]
}
