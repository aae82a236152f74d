package podlog_test

import (
	"bytes"
	"compress/gzip"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tare-bench/tare/internal/fleet/pairs"
	"github.com/tare-bench/tare/internal/fleet/podlog"
)

// blocks are what a test writes: whole lines, some long and not to be compressed.
func blocks() [][]byte {
	var all [][]byte
	for b := range 5 {
		var block bytes.Buffer
		for i := range 4 {
			noise := make([]byte, 2000*i+1)
			_, _ = rand.Read(noise)
			text := base64.StdEncoding.EncodeToString(noise)
			fmt.Fprintf(&block, "{\"sample\":{\"block\":%d,\"n\":%d,\"x\":%q}}\n", b, i, text)
		}
		all = append(all, block.Bytes())
	}
	return all
}

// written is the log of a pod that writes blocks.
func written(t *testing.T, all [][]byte) (log string, d podlog.Digest) {
	t.Helper()
	var out bytes.Buffer
	w := podlog.NewWriter(&out)
	check := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	check(w.Hello(podlog.Hello{Wall: time.Unix(1e9, 0), Node: "node-1", Pass: 1, Arch: "amd64", Tool: "1"}))
	for i, b := range all {
		if _, err := w.Write(b); err != nil {
			t.Fatal(err)
		}
		check(w.Flush())
		check(w.Trips([]pairs.Trip{{Meeting: pairs.Meeting{Server: i + 1}, Round: i, Network: "pod", Seconds: 1e-4}}))
	}
	d, err := w.End(podlog.Done, "")
	check(err)
	for l := range strings.Lines(out.String()) {
		if len(l) > 8<<10 {
			t.Errorf("a line has %d bytes", len(l))
		}
	}
	return out.String(), d
}

func read(t *testing.T, logs ...string) *podlog.Reader {
	t.Helper()
	r := podlog.NewReader()
	for _, l := range logs {
		if err := r.Read(strings.NewReader(l)); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

func TestWhole(t *testing.T) {
	all := blocks()
	log, d := written(t, all)
	r := read(t, log)
	if err := r.Check(string(d.Message())); err != nil {
		t.Error(err)
	}
	text, holes := r.Records()
	if holes != 0 || !bytes.Equal(text, slices.Concat(all...)) || !bytes.Equal(text, r.Prefix()) {
		t.Errorf("%d holes; %d bytes, want %d", holes, len(text), len(slices.Concat(all...)))
	}
	if h, ok := r.Hello(); !ok || h.Node != "node-1" {
		t.Errorf("hello: %v", h)
	}
	if end, ok := r.End(); !ok || end.Outcome != podlog.Done {
		t.Errorf("end: %v", end)
	}
	if got := r.Trips(); len(got) != len(all) || got[1].Server != 2 {
		t.Errorf("trips: %v", got)
	}
}

// TestOverlap reads a log as it grows, with lines of others and the same lines again.
func TestOverlap(t *testing.T) {
	all := blocks()
	log, d := written(t, all)
	lines := slices.Collect(strings.Lines(log))
	half := strings.Join(lines[:len(lines)/2], "")
	cut := half + lines[len(lines)/2][:100]
	r := read(t, "warning: first\n"+cut, "runtime: panic\x1b[31m\n"+half+"fatal\n", log)
	if err := r.Check(string(d.Message())); err != nil {
		t.Error(err)
	}
	if text, _ := r.Records(); !bytes.Equal(text, slices.Concat(all...)) {
		t.Error("the records differ")
	}
	if diff := cmp.Diff([]string{"runtime: panic\x1b[31m", "fatal"}, r.Words()); diff != "" {
		t.Errorf("words of the last reading that had any:\n%s", diff)
	}
}

// dropped is a log without the lines that a function names.
func dropped(log string, drop func(i int, line string) bool) string {
	var kept strings.Builder
	i := 0
	for l := range strings.Lines(log) {
		if !drop(i, l) {
			kept.WriteString(l)
		}
		i++
	}
	return kept.String()
}

// TestHole loses one line in the middle of a block: what is before it and the other blocks stay, and as many lines as
// were lost say that they are damaged.
func TestHole(t *testing.T) {
	all := blocks()
	log, d := written(t, all)
	seen := 0
	var lost string
	holed := dropped(log, func(_ int, l string) bool {
		if strings.Contains(l, " more ") {
			if seen++; seen == 2 {
				lost = l
				return true
			}
		}
		return false
	})
	for name, text := range map[string]string{
		"missing": holed,
		"cut":     strings.Replace(log, lost, lost[:len(lost)/2]+"\n", 1),
		"damaged": strings.Replace(log, lost, strings.Replace(lost, " more ", " mode ", 1), 1),
		"changed": strings.Replace(log, lost, lost[:40]+"!"+lost[41:], 1),
	} {
		r := read(t, text)
		if err := r.Check(string(d.Message())); err == nil {
			t.Errorf("%s: the log is said to be whole", name)
		}
		got, holes := r.Records()
		gotLines, want := bytes.SplitAfter(got, []byte("\n")), bytes.SplitAfter(slices.Concat(all...), []byte("\n"))
		if holes != 1 || len(gotLines) != len(want) {
			t.Errorf("%s: %d holes, %d lines, want %d", name, holes, len(gotLines), len(want))
			continue
		}
		damaged := 0
		for i := range want {
			if bytes.Equal(gotLines[i], want[i]) {
				continue
			}
			damaged++
			if i >= 4 || !bytes.Contains(gotLines[i], []byte("00000000")) {
				t.Errorf("%s: line %d is %.60q", name, i, gotLines[i])
			}
		}
		if damaged == 0 || damaged > 4 {
			t.Errorf("%s: %d lines are damaged", name, damaged)
		}
		if !bytes.HasPrefix(slices.Concat(all...), r.Prefix()) || len(r.Prefix()) >= len(all[0]) {
			t.Errorf("%s: the prefix has %d bytes", name, len(r.Prefix()))
		}
	}
}

// TestRotation loses the beginning: without the header of the run nothing can be used, unless it was read before.
func TestRotation(t *testing.T) {
	all := blocks()
	log, d := written(t, all)
	lines := strings.Count(log, "\n")
	late := dropped(log, func(i int, _ string) bool { return i < lines/2 })
	early := dropped(log, func(i int, _ string) bool { return i >= lines*2/3 })
	r := read(t, late)
	if text, holes := r.Records(); len(text) != 0 || holes != 1 {
		t.Errorf("without its beginning: %d bytes, %d holes", len(text), holes)
	}
	if err := r.Read(strings.NewReader(early)); err != nil {
		t.Fatal(err)
	}
	if err := r.Check(string(d.Message())); err != nil {
		t.Error(err)
	}
	if text, _ := r.Records(); !bytes.Equal(text, slices.Concat(all...)) {
		t.Error("the records differ")
	}
}

func TestCut(t *testing.T) {
	all := blocks()
	log, d := written(t, all)
	for n := 0; n < len(log); n += 997 {
		r := read(t, log[:n])
		if err := r.Check(string(d.Message())); err == nil {
			t.Fatalf("%d of %d bytes are said to be whole", n, len(log))
		}
		if text, _ := r.Records(); !bytes.HasPrefix(slices.Concat(all...), text) {
			t.Fatalf("%d bytes: the records are no beginning", n)
		}
	}
}

// TestOtherDigest has a log that is whole, and is not the one that the pod has written.
func TestOtherDigest(t *testing.T) {
	log, _ := written(t, blocks())
	_, other := written(t, blocks())
	r := read(t, log)
	if err := r.Check(string(other.Message())); err == nil {
		t.Error("another digest fits")
	}
	if err := r.Check("OOMKilled"); err != nil {
		t.Errorf("without a digest: %v", err)
	}
}

// ours is a line of ours with a right checksum, whatever it holds.
func ours(seq int, kind, data string) string {
	sum := crc32.Checksum(fmt.Appendf(nil, "%d %s %s", seq, kind, data), crc32.MakeTable(crc32.Castagnoli))
	return fmt.Sprintf("tare1 %d %08x %s %s\n", seq, sum, kind, data)
}

// TestHostile reads what no Writer writes.
func TestHostile(t *testing.T) {
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	_, _ = z.Write(make([]byte, 4<<20))
	_ = z.Close()
	packed := base64.StdEncoding.EncodeToString(bomb.Bytes())
	for name, log := range map[string]string{
		"bomb":     ours(0, "block", "0 "+packed),
		"far":      ours(99_999, "block", "0 "+packed),
		"beyond":   ours(100_000_000, "end", "{}"),
		"negative": "tare1 -1 00000000 end {}\n",
		"counts":   ours(0, "block", "999999999 AAAA") + ours(1, "block", "-5 AAAA"),
		"trips":    ours(0, "trips", `[{"Client":-1,"Server":1,"Seconds":1},{"Client":0,"Server":1,"Seconds":-1}]`),
		"long":     strings.Repeat("x", 1<<20) + "\n",
		"zeros":    strings.Repeat("\x00", 1<<16),
	} {
		r := read(t, log)
		if text, _ := r.Records(); len(text) > 0 {
			t.Errorf("%s: %d bytes", name, len(text))
		}
		if r.Check("") == nil || len(r.Trips()) > 0 {
			t.Errorf("%s is said to be whole, or has trips", name)
		}
		for _, w := range r.Words() {
			if len(w) > 400 {
				t.Errorf("%s: words of %d bytes are kept", name, len(w))
			}
		}
	}
}

// TestTooMuch has a log that does not end.
func TestTooMuch(t *testing.T) {
	data := strings.Repeat("A", 8000)
	seq := 0
	endless := readFunc(func(p []byte) (int, error) {
		seq++
		return copy(p, ours(seq, "more", data)), nil
	})
	if err := podlog.NewReader().Read(endless); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("an endless log: %v", err)
	}
}

type readFunc func([]byte) (int, error)

func (f readFunc) Read(p []byte) (int, error) { return f(p) }

func TestMessageFits(t *testing.T) {
	d := podlog.Digest{Outcome: podlog.Failed, Reason: strings.Repeat("\x01", 5000), Lines: 1 << 30}
	d.SHA256 = strings.Repeat("f", 64)
	text := d.Message()
	if len(text) > 4096 {
		t.Errorf("%d bytes", len(text))
	}
	if got, ok := podlog.ParseDigest(string(text)); !ok || got.Lines != d.Lines {
		t.Errorf("read back: %v", got)
	}
}

// TestWriteError writes to a log that is full.
func TestWriteError(t *testing.T) {
	w := podlog.NewWriter(failing{})
	if err := w.Hello(podlog.Hello{}); err == nil {
		t.Error("no error")
	}
	if _, err := w.End(podlog.Done, ""); err == nil {
		t.Error("the error is forgotten")
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, io.ErrShortWrite }

func FuzzReader(f *testing.F) {
	var out bytes.Buffer
	w := podlog.NewWriter(&out)
	_ = w.Hello(podlog.Hello{Node: "n"})
	_, _ = w.Write([]byte("{\"tare\":\"record\"}\n{\"sample\":{}}\n"))
	_ = w.Flush()
	_, _ = w.End(podlog.Failed, "why")
	f.Add(out.String())
	f.Add(ours(0, "block", "0 AAAA") + ours(3, "more", "1 AAAA"))
	f.Add("block 0 AAAA\nend {}")
	f.Fuzz(func(t *testing.T, log string) {
		r := podlog.NewReader()
		if err := r.Read(strings.NewReader(log)); err != nil {
			t.Fatal(err)
		}
		i := 0
		for l := range strings.Lines(log) { // what a Writer of somebody else could have written
			kind, data, _ := strings.Cut(strings.TrimSuffix(l, "\n"), " ")
			if err := r.Read(strings.NewReader(ours(i, kind, data))); err != nil {
				t.Fatal(err)
			}
			i++
		}
		text, _ := r.Records()
		prefix := r.Prefix()
		for _, b := range [][]byte{text, prefix} {
			if len(b) > 0 && b[len(b)-1] != '\n' {
				t.Errorf("a line is not whole: %q", b)
			}
		}
		if !bytes.HasPrefix(text, prefix) {
			t.Errorf("%q does not begin with %q", text, prefix)
		}
		_ = r.Check("")
		_, _ = r.Hello()
		_, _ = r.End()
		_ = r.Trips()
	})
}
