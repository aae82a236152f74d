package pgbench

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/tare-bench/tare/internal/load"
)

// A Log is what the log files of one run of pgbench (-l) say together. Times are those of the
// transactions that ended well: from their first statement, or with a rate from the moment when
// they were due, to the answer to the last.
type Log struct {
	Transactions int64 // that ended well
	Skipped      int64 // not begun, because they were late already
	Failed       int64 // ended with an error
	Clients      int   // that are in the log; 0 if it is aggregated

	// Times has every time of a transaction, and nothing if the log is aggregated: then only Mean,
	// StdDev, Min and Max are known.
	Times      *load.Histogram
	Aggregated bool

	// From and To restrict the log, unless they are zero: transactions count that ended from From on and before
	// To.
	From, To time.Time

	First, Last time.Time // when the first transaction ended, and the last; of an aggregated log, when its intervals began

	sum, squares float64 // of times, in microseconds
	min, max     float64
	seconds      map[int64]*second
	current      *second // of the line before
	at           int64
	interval     int64 // seconds of an interval of an aggregated log; 0 = unknown, as it has one
	before       int64 // when the interval of the line before began, in this file
	clients      []bool
}

// A second is what ended in one second, or in one interval of an aggregated log.
type second struct {
	n        int64
	sum, max float64 // microseconds
}

const (
	// maxClient bounds the number of a client, of which there is one bit each.
	maxClient = 1 << 20
	// maxSeconds bounds how long a log can be: eleven days.
	maxSeconds = 1_000_000
	// bufferSize is the longest line that is read.
	bufferSize = 256 << 10
	// epoch tells an interval's beginning, which an aggregated log has first, from a client's number.
	epoch = 100_000_000
)

// NewLog returns an empty log.
func NewLog() *Log {
	return &Log{Times: load.NewHistogram(), seconds: map[int64]*second{}, min: math.Inf(1)}
}

// Mean is the mean time in seconds; NaN without transactions.
func (l *Log) Mean() float64 { return l.sum / float64(l.Transactions) / 1e6 }

// Span is from the first to the last transaction, or over all intervals; 0 = unknown.
func (l *Log) Span() time.Duration {
	switch {
	case !l.Aggregated:
		return l.Last.Sub(l.First)
	case l.interval == 0:
		return 0
	default:
		return l.Last.Sub(l.First) + time.Duration(l.interval)*time.Second
	}
}

// Min and Max are the shortest and the longest time in seconds.
func (l *Log) Min() float64 { return l.min / 1e6 }

// Max is the longest time in seconds.
func (l *Log) Max() float64 { return l.max / 1e6 }

// StdDev is the standard deviation of the times in seconds, as pgbench computes it; NaN without
// transactions.
func (l *Log) StdDev() float64 {
	n := float64(l.Transactions)
	mean := l.sum / n
	return math.Sqrt(max(0, l.squares/n-mean*mean)) / 1e6
}

// errLine is a line that is none of a log.
type errLine struct {
	n   int
	why string
}

func (e *errLine) Error() string { return fmt.Sprintf("line %d: %s", e.n, e.why) }

// Read adds a log file. A last line that was cut off is ignored: pgbench was killed.
func (l *Log) Read(r io.Reader) error {
	in := bufio.NewReaderSize(r, bufferSize)
	for n := 1; ; n++ {
		line, err := in.ReadSlice('\n')
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			return &errLine{n, fmt.Sprintf("it has more than %d bytes", bufferSize)}
		case err != nil && !errors.Is(err, io.EOF):
			return &errLine{n, err.Error()}
		}
		if why := l.line(line); why != "" && err == nil {
			return &errLine{n, why}
		}
		if err != nil {
			l.finish()
			return nil
		}
	}
}

func (l *Log) finish() {
	l.before, l.Clients = 0, 0
	for _, is := range l.clients {
		if is {
			l.Clients++
		}
	}
}

// maxFields is how many numbers a line has at most; an aggregated log of version 15 has 15.
const maxFields = 24

// line adds one line, and says what is wrong with it. Blank lines are none.
func (l *Log) line(line []byte) (wrong string) {
	var fields [maxFields]int64
	n, word, ok := split(line, &fields)
	switch {
	case n == 0 && ok:
		return ""
	case !ok || n < 6:
		return "this is no line of pgbench's log: " + shorten(line)
	case fields[0] >= epoch:
		return l.addInterval(fields[:n], word >= 0)
	case n > 8:
		return fmt.Sprintf("%d fields; a line of pgbench's log has 6 to 8", n)
	case word >= 0 && word != 2:
		return fmt.Sprintf("field %d is no number", word+1)
	}
	if l.Aggregated {
		return "a transaction in an aggregated log"
	}
	return l.transaction(&fields, word == 2)
}

// transaction adds a transaction. Without a time, it was skipped or it failed.
func (l *Log) transaction(f *[maxFields]int64, noTime bool) (wrong string) {
	client, sec, usec := f[0], f[4], f[5]
	switch {
	case client < 0 || client >= maxClient:
		return fmt.Sprintf("the client number %d", client)
	case sec < 0 || sec > maxEpoch || usec < 0 || usec >= 1_000_000:
		return fmt.Sprintf("the time %d.%06d", sec, usec)
	}
	for int64(len(l.clients)) <= client {
		l.clients = append(l.clients, false)
	}
	l.clients[client] = true
	ended := time.Unix(sec, usec*1000)
	if ended.Before(l.From) || !l.To.IsZero() && !ended.Before(l.To) {
		return ""
	}
	if noTime {
		if f[2] == skippedWord {
			l.Skipped++
		} else {
			l.Failed++
		}
		return ""
	}
	if l.First.IsZero() || ended.Before(l.First) {
		l.First = ended
	}
	if ended.After(l.Last) {
		l.Last = ended
	}
	took := float64(f[2])
	l.Transactions++
	l.sum += took
	l.squares += took * took
	l.min, l.max = min(l.min, took), max(l.max, took)
	l.Times.Add(time.Duration(min(f[2], maxTime)) * time.Microsecond)
	return l.second(sec, 1, took, took)
}

const (
	// maxTime is the longest time that is told from longer ones, in microseconds.
	maxTime = int64(time.Hour / time.Microsecond)
	// maxEpoch is the year 2255.
	maxEpoch = 9_000_000_000
)

// addInterval adds a line of an aggregated log. The files of threads have intervals of the same length.
func (l *Log) addInterval(f []int64, word bool) (wrong string) {
	switch n := len(f); {
	case word || n != 6 && n != 10 && n != 11 && n < 15:
		return fmt.Sprintf("%d fields; a line of pgbench's aggregated log has 6, 10, 11 or 15 numbers", n)
	case l.Transactions > 0 && !l.Aggregated:
		return "an interval of an aggregated log among transactions"
	case f[0] > maxEpoch || f[1] < 0 || f[2] < 0 || f[3] < 0 || f[4] < 0 || f[5] < 0:
		return "a number is out of range"
	}
	l.Aggregated = true
	if length := f[0] - l.before; l.before > 0 && length > 0 && (l.interval == 0 || length < l.interval) {
		l.interval = length
	}
	l.before = f[0]
	began := time.Unix(f[0], 0)
	if l.First.IsZero() || began.Before(l.First) {
		l.First = began
	}
	if began.After(l.Last) {
		l.Last = began
	}
	if len(f) > 10 {
		l.Skipped += f[10]
	}
	if len(f) > 14 {
		l.Failed += f[13] + f[14]
	}
	if f[1] == 0 {
		return ""
	}
	l.Transactions += f[1]
	l.sum += float64(f[2])
	l.squares += float64(f[3])
	l.min, l.max = min(l.min, float64(f[4])), max(l.max, float64(f[5]))
	return l.second(f[0], f[1], float64(f[2]), float64(f[5]))
}

// second adds transactions to a second.
func (l *Log) second(at, n int64, sum, longest float64) (wrong string) {
	if l.current == nil || at != l.at {
		s := l.seconds[at]
		if s == nil {
			if len(l.seconds) >= maxSeconds {
				return fmt.Sprintf("the log spans more than %d seconds", maxSeconds)
			}
			s = &second{}
			l.seconds[at] = s
		}
		l.current, l.at = s, at
	}
	l.current.n += n
	l.current.sum += sum
	l.current.max = max(l.current.max, longest)
	return ""
}

// skippedWord stands for the time "skipped", and otherWord for every other word.
const (
	skippedWord = -1 - iota
	otherWord
)

// split reads the fields of a line, which are whole numbers but for one that may be a word: its
// index, -1 = none. It is not ok if there is anything else, or too much.
func split(line []byte, fields *[maxFields]int64) (n, word int, ok bool) {
	word = -1
	for i := 0; ; n++ {
		for i < len(line) && isBlank(line[i]) {
			i++
		}
		if i == len(line) {
			return n, word, true
		}
		if n == maxFields {
			return n, word, false
		}
		v, length := number(line[i:])
		if length == 0 {
			v, length = reason(line[i:])
			if length == 0 || word >= 0 {
				return n, word, false
			}
			word = n
		}
		if i += length; i < len(line) && !isBlank(line[i]) {
			return n, word, false
		}
		fields[n] = v
	}
}

func isBlank(c byte) bool { return c == ' ' || c == '\n' || c == '\r' }

// number reads a whole number, and how long it is: 0 = there is none. One that is too large becomes
// the largest: sums of squares can be.
func number(b []byte) (v int64, length int) {
	i, sign := 0, int64(1)
	if b[0] == '-' {
		i, sign = 1, -1
	}
	first := i
	for ; i < len(b) && b[i] >= '0' && b[i] <= '9'; i++ {
		v = v*10 + int64(b[i]-'0')
	}
	switch {
	case i == first:
		return 0, 0
	case i-first > 18:
		v = math.MaxInt64
	}
	return sign * v, i
}

// reason reads what stands for a time that there is not, and how long it is: 0 = there is none.
func reason(b []byte) (v int64, length int) {
	for length < len(b) && b[length] >= 'a' && b[length] <= 'z' {
		length++
	}
	if string(b[:length]) == "skipped" {
		return skippedWord, length
	}
	return otherWord, length
}

// shorten quotes the beginning of a line.
func shorten(line []byte) string {
	const most = 60
	line = bytes.TrimRight(line, "\r\n")
	if len(line) > most {
		return fmt.Sprintf("%q…", line[:most])
	}
	return fmt.Sprintf("%q", line)
}
