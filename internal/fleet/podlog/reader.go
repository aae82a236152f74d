package podlog

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tare-bench/tare/internal/fleet/pairs"
)

// Limits of what a Reader keeps of one pod, however much its log has.
const (
	maxLines   = 100_000
	maxHeld    = 32 << 20 // bytes of lines
	maxRecords = 64 << 20 // bytes of the record stream
	maxRead    = 64 << 20 // bytes of one reading of a log
	maxWords   = 10       // lines of others
	maxWord    = 300      // bytes of such a line
)

// A Reader puts together the log of one pod, from one reading or from several that overlap. Nothing that a log
// contains makes it fail or keep more than its limits.
type Reader struct {
	lines map[int]line // by their numbers
	held  int          // bytes
	words []string
}

// A line is one of ours.
type line struct{ kind, data string }

// NewReader returns a Reader that has read nothing.
func NewReader() *Reader { return &Reader{lines: map[int]line{}} }

// Read reads a log, or a part of it. Its error is that of the reading, or says that the log has too much; what
// was read before stays.
func (r *Reader) Read(log io.Reader) error {
	in := bufio.NewReaderSize(io.LimitReader(log, maxRead), 2*maxLine)
	var words []string
	for {
		text, err := in.ReadSlice('\n')
		if w := r.take(text); w != "" {
			words = append(words, w)
			words = words[max(0, len(words)-maxWords):]
			r.words = words
		}
		for errors.Is(err, bufio.ErrBufferFull) { // the rest of a line that is too long for ours
			_, err = in.ReadSlice('\n')
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("read the log: %w", err)
		case r.held > maxHeld || len(r.lines) >= maxLines:
			return fmt.Errorf("read the log: it has more than %d lines or %d MiB", maxLines, maxHeld>>20)
		}
	}
}

// take keeps a line. It returns the line if it is not one of ours.
func (r *Reader) take(text []byte) (words string) {
	seq, l, ok := parse(text)
	if !ok {
		return word(text)
	}
	if _, known := r.lines[seq]; !known {
		r.lines[seq] = l
		r.held += len(l.data)
	}
	return ""
}

// parse reads a whole line of ours.
func parse(text []byte) (int, line, bool) {
	s, whole := strings.CutSuffix(string(text), "\n")
	f := strings.SplitN(s, " ", 5)
	if !whole || len(f) != 5 || f[0] != magic || len(text) > maxLine {
		return 0, line{}, false
	}
	seq, err := strconv.Atoi(f[1])
	if err != nil || seq < 0 || seq >= maxLines || f[2] != fmt.Sprintf("%08x", checksum(seq, f[3], f[4])) {
		return 0, line{}, false
	}
	return seq, line{f[3], f[4]}, true
}

// word is a line of others as it is kept. Damaged lines of ours say nothing to anybody.
func word(text []byte) string {
	s := strings.TrimSpace(string(text))
	if strings.HasPrefix(s, magic+" ") {
		return ""
	}
	if len(s) > maxWord {
		s = s[:maxWord] + "…"
	}
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "\uFFFD")
	}
	return s
}

// Words are the last lines that others wrote, such as an error of the program: foreign text.
func (r *Reader) Words() []string { return slices.Clone(r.words) }

// Hello is the first line; ok is false if it was not read.
func (r *Reader) Hello() (h Hello, ok bool) {
	return h, r.lines[0].kind == kindHello && json.Unmarshal([]byte(r.lines[0].data), &h) == nil
}

// End is the last line, without the number of lines and their sum; ok is false if it was not read.
func (r *Reader) End() (d Digest, ok bool) {
	l := r.lines[r.last()]
	ok = l.kind == kindEnd && json.Unmarshal([]byte(l.data), &d) == nil
	return d, ok && (d.Outcome == Done || d.Outcome == Failed)
}

// Trips are the round trips that were read, lost ones included. Their indices are not checked against a fleet.
func (r *Reader) Trips() []pairs.Trip {
	var all []pairs.Trip
	for seq := range r.last() + 1 {
		var trips []pairs.Trip
		if l := r.lines[seq]; l.kind != kindTrips || json.Unmarshal([]byte(l.data), &trips) != nil {
			continue
		}
		for _, t := range trips {
			t.Lost = shortened(t.Lost)
			if (t.Seconds > 0 || t.Lost != "") && t.Client >= 0 && t.Server >= 0 && t.Client != t.Server {
				all = append(all, t)
			}
		}
	}
	return all
}

// last is the greatest number of a line; -1 if there is none.
func (r *Reader) last() int {
	last := -1
	for seq := range r.lines {
		last = max(last, seq)
	}
	return last
}

// Check returns nil if the log is whole: it has its last line, all lines before it, and the sum that the pod left
// as its termination message. message may be empty, if the pod could not leave it.
func (r *Reader) Check(message string) error {
	last := r.last()
	if missing := last + 1 - len(r.lines); missing > 0 {
		return fmt.Errorf("the log has a hole: %d of %d lines are missing", missing, last+1)
	}
	d, known := ParseDigest(message)
	if known && d.Lines != last+1 {
		return fmt.Errorf("the log is incomplete: %d of %d lines were read", last+1, d.Lines)
	}
	if _, ended := r.End(); !ended {
		return fmt.Errorf("the log is incomplete: after %d lines it has no end", last+1)
	}
	sum := sha256.New()
	for seq := range last + 1 {
		l := r.lines[seq]
		fmt.Fprintf(sum, "%s %d %08x %s %s\n", magic, seq, checksum(seq, l.kind, l.data), l.kind, l.data)
	}
	if known && d.SHA256 != hex.EncodeToString(sum.Sum(nil)) {
		return errors.New("the log does not have the sum that the pod says it has")
	}
	return nil
}

// Prefix is the record stream up to the first hole, in whole lines. A later reading can only make it longer.
func (r *Reader) Prefix() []byte {
	text, _ := r.stream(false)
	return text
}

// Records is as much of the record stream as can be used. After a hole it goes on with the next block; in between
// stand as many lines as were lost, all damaged, so that record.Salvager fails these samples. holes is how many
// there are.
func (r *Reader) Records() (text []byte, holes int) { return r.stream(true) }

// lostLine stands for a line of the record stream that was lost, and maxLost is how many may follow each other.
const (
	lostLine = `{"sample":{"lost":true},"crc32c":"00000000"}` + "\n"
	maxLost  = 10_000
)

// stream puts the record stream together, beyond holes only if fill is set.
func (r *Reader) stream(fill bool) (out []byte, holes int) {
	written, lost := 0, false // whole lines in out; after a hole, and before the next block
	for seq := range r.last() + 1 {
		l, ok := r.lines[seq]
		if ok && l.kind != kindBlock && l.kind != kindMore {
			continue
		}
		if lost && l.kind != kindBlock {
			continue
		}
		chunk, before, err := unpack(l.data)
		if !ok || err != nil || !lost && before != written || len(out)+len(chunk) > maxRecords {
			holes += btoi(!lost)
			lost = true
			if !fill {
				break
			}
			continue
		}
		if lost {
			out = out[:bytes.LastIndexByte(out, '\n')+1]
			n := before - written
			if n < 0 || n > maxLost || n > 0 && len(out) == 0 {
				break // the header is lost, or too much
			}
			out = append(out, strings.Repeat(lostLine, n)...)
			written, lost = before, false
		}
		out = append(out, chunk...)
		written += bytes.Count(chunk, []byte{'\n'})
	}
	return out[:bytes.LastIndexByte(out, '\n')+1], holes
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// unpack reads the data of a line that holds a chunk, and how many lines were written before it.
func unpack(data string) (chunk []byte, before int, err error) {
	number, text, _ := strings.Cut(data, " ")
	if before, err = strconv.Atoi(number); err != nil {
		return nil, 0, err
	}
	packed, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, 0, err
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, 0, err
	}
	chunk, err = io.ReadAll(io.LimitReader(z, maxChunk+1))
	if err == nil && len(chunk) > maxChunk {
		err = errors.New("a line holds too much")
	}
	return chunk, before, err
}
