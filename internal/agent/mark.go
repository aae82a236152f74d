package agent

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"
)

// A Mark has the times when a process inside a container began and ended its own work,
// in CLOCK_MONOTONIC of its kernel. First is its first instruction, before any runtime;
// Last is just before it wrote the mark and exited or, in task "mark hold", began to
// wait for SIGTERM.
type Mark struct {
	First, Last time.Duration
}

// ErrMark is wrapped by ParseMark's error.
var ErrMark = errors.New("not a mark")

const (
	markFirst = "tare-mark v1 first="
	markLast  = " last="
	// markMax is longer than any mark: two numbers of at most 19 digits.
	markMax = len(markFirst) + len(markLast) + 2*19 + len("\n")
)

// String returns the line that task "mark" prints, with its newline.
func (m Mark) String() string { return string(m.append(make([]byte, 0, markMax))) }

func (m Mark) append(b []byte) []byte {
	b = append(b, markFirst...)
	b = strconv.AppendInt(b, int64(m.First), 10)
	b = append(b, markLast...)
	b = strconv.AppendInt(b, int64(m.Last), 10)
	return append(b, '\n')
}

// ParseMark reads the whole output of task "mark", which is one line and nothing else.
// Mark.String returns what ParseMark accepts unchanged.
func ParseMark(output []byte) (Mark, error) {
	m, ok := parseMark(output)
	if !ok {
		return Mark{}, fmt.Errorf("%w: %.80q", ErrMark, output)
	}
	return m, nil
}

func parseMark(output []byte) (m Mark, ok bool) {
	if len(output) > markMax {
		return Mark{}, false
	}
	line, ok1 := strings.CutPrefix(string(output), markFirst)
	first, rest, ok2 := strings.Cut(line, markLast)
	last, ok3 := strings.CutSuffix(rest, "\n")
	f, err1 := strconv.ParseInt(first, 10, 64)
	l, err2 := strconv.ParseInt(last, 10, 64)
	if !ok1 || !ok2 || !ok3 || err1 != nil || err2 != nil || f <= 0 || l < f {
		return Mark{}, false
	}
	m = Mark{time.Duration(f), time.Duration(l)}
	return m, m.String() == string(output) // no sign, no leading zero
}

// mark prints the mark in one write, as the last thing before the process ends.
func mark(first time.Duration, stdout, stderr io.Writer) int {
	return result(stderr, "mark", printMark(first, stdout))
}

// markHold prints the mark and then waits for SIGTERM like hold.
func markHold(first time.Duration, stdout, stderr io.Writer) int {
	term := terminated()
	if err := printMark(first, stdout); err != nil {
		return result(stderr, "mark hold", err)
	}
	<-term
	return exitOK
}

func printMark(first time.Duration, stdout io.Writer) error {
	if first <= 0 {
		return errors.New("this build does not know its first instruction: link it with -E tare_start, as 'make build' does")
	}
	b := make([]byte, 0, markMax)
	m := Mark{First: first, Last: monotonic()}
	_, err := stdout.Write(m.append(b))
	return err
}

// monotonic reads CLOCK_MONOTONIC. Package time does not give out its own reading, and
// the host must be able to compare the times. The call cannot fail: the clock exists and
// the address is valid.
func monotonic() time.Duration {
	const clockMonotonic = 1
	var ts syscall.Timespec
	_, _, _ = syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockMonotonic, uintptr(unsafe.Pointer(&ts)), 0)
	return time.Duration(ts.Nano())
}
