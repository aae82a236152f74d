package podlog

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tare-bench/tare/internal/fleet/pairs"
)

// A Writer writes the lines of one pod. It is an io.Writer for the record stream. Its methods may be called from
// several goroutines. After an error it writes nothing more and returns that error again.
type Writer struct {
	mu      sync.Mutex
	w       io.Writer
	seq     int
	records int    // lines of the record stream that were written
	pending []byte // bytes of the record stream that were not
	inside  bool   // of a block
	sum     hash.Hash
	err     error
}

// NewWriter returns a Writer of a new log.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w, sum: sha256.New()} }

// Hello writes the first line.
func (w *Writer) Hello(h Hello) error {
	h.Wall = h.Wall.UTC().Round(time.Millisecond)
	return w.small(kindHello, h)
}

// maxTrips is how many round trips fit into one line.
const maxTrips = 32

// maxWhy is how much is written of why a round trip could not be measured, in bytes.
const maxWhy = 120

// Trips writes round trips that were measured, and why others were not.
func (w *Writer) Trips(trips []pairs.Trip) error {
	trips = slices.Clone(trips)
	for i := range trips {
		trips[i].Lost = shortened(trips[i].Lost)
	}
	for len(trips) > 0 {
		n := min(maxTrips, len(trips))
		if slices.ContainsFunc(trips[:n], func(t pairs.Trip) bool { return t.Lost != "" }) {
			n = min(maxTrips/4, n) // each byte of a reason may take six
		}
		if err := w.small(kindTrips, trips[:n]); err != nil {
			return err
		}
		trips = trips[n:]
	}
	return nil
}

// shortened is why a round trip was lost, as it is written.
func shortened(why string) string {
	if len(why) > maxWhy+len("…") {
		return strings.ToValidUTF8(why[:maxWhy], "") + "…"
	}
	return why
}

// Write takes bytes of the record stream. They are written when there are many, or by Flush.
func (w *Writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pending = append(w.pending, p...)
	for len(w.pending) >= maxChunk && w.err == nil {
		w.chunk()
	}
	if w.err != nil {
		return 0, w.err
	}
	return len(p), nil
}

// Flush ends a block: all of it is written, and the next bytes begin another.
func (w *Writer) Flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.pending) > 0 && w.err == nil {
		w.chunk()
	}
	w.inside = false
	return w.err
}

// End writes what is left and the last line, and returns the digest to leave as the pod's termination message.
func (w *Writer) End(outcome, reason string) (Digest, error) {
	d := Digest{Outcome: outcome, Reason: reason}
	if len(d.Reason) > maxReason {
		d.Reason = d.Reason[:maxReason]
	}
	if err := w.Flush(); err != nil {
		return d, err
	}
	err := w.small(kindEnd, d)
	d.Lines, d.SHA256 = w.seq, hex.EncodeToString(w.sum.Sum(nil))
	return d, err
}

// chunk writes as much of what is pending as fits into one line.
func (w *Writer) chunk() {
	kind := kindBlock
	if w.inside {
		kind = kindMore
	}
	n := min(len(w.pending), maxChunk)
	text := compressed(w.pending[:n])
	for room := maxLine - 80; len(text) > room; text = compressed(w.pending[:n]) {
		n = max(1, min(n-1, n*room/len(text)*9/10))
	}
	w.line(kind, fmt.Sprintf("%d %s", w.records, text))
	w.inside = true
	w.records += bytes.Count(w.pending[:n], []byte{'\n'})
	w.pending = append(w.pending[:0], w.pending[n:]...)
}

// compressed is a chunk as it stands in a line.
func compressed(chunk []byte) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err := z.Write(chunk)
	if err == nil {
		err = z.Close()
	}
	if err != nil {
		panic(err) // a buffer takes everything
	}
	return base64.StdEncoding.EncodeToString(b.Bytes())
}

// small writes a line of JSON. What is pending of the record stream stays so.
func (w *Writer) small(kind string, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("write to the log: %s: %w", kind, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.line(kind, string(text))
	return w.err
}

// line writes one line.
func (w *Writer) line(kind, data string) {
	if w.err != nil {
		return
	}
	text := fmt.Appendf(nil, "%s %d %08x %s %s\n", magic, w.seq, checksum(w.seq, kind, data), kind, data)
	if len(text) > maxLine {
		w.err = fmt.Errorf("write to the log: a line %q has %d bytes, and %d are allowed", kind, len(text), maxLine)
		return
	}
	if _, w.err = w.w.Write(text); w.err == nil {
		w.sum.Write(text)
		w.seq++
	}
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksum is that of a line.
func checksum(seq int, kind, data string) uint32 {
	return crc32.Checksum(fmt.Appendf(nil, "%d %s %s", seq, kind, data), castagnoli)
}
