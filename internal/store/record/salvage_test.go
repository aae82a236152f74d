package record_test

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/store/record"
)

// salvage reads what can be read.
func salvage(text []byte) (runs []*bench.Run, faults, err error) {
	s := record.NewSalvager(bytes.NewReader(text))
	for {
		e, err := s.Next()
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return runs, s.Faults(), err
		}
		switch last := len(runs) - 1; {
		case e.Header != nil:
			runs = append(runs, &bench.Run{Header: *e.Header})
		case e.Sample != nil:
			runs[last].Samples = append(runs[last].Samples, *e.Sample)
		case e.Resumption != nil:
			runs[last].Resumptions = append(runs[last].Resumptions, *e.Resumption)
		case e.End != nil:
			runs[last].End = e.End
		}
	}
}

// two returns two runs whose samples are as planned, and their stream.
func two(t *testing.T) (runs []*bench.Run, text string) {
	t.Helper()
	first, second := example(), example()
	second.Header.ID = "20261120-094500-q2x7"
	for _, r := range []*bench.Run{first, second} {
		n := 0
		for block, cells := range r.Header.Schedule {
			for _, cell := range cells {
				if n < len(r.Samples) {
					r.Samples[n].Trial = bench.Trial{Seq: n, Block: block - r.Header.Plan.Warmup, Cell: cell}
				}
				n++
			}
		}
	}
	for i := range second.Samples {
		second.Samples[i].Elapsed++
	}
	runs = []*bench.Run{first, second}
	return runs, encode(t, runs...)
}

// onlyOriginal checks that runs consist of pieces of the original ones, each where it was, and of
// replacements. It returns how many pieces are original.
func onlyOriginal(t *testing.T, want, got []*bench.Run) (pieces int) {
	t.Helper()
	for _, r := range got {
		i := slices.IndexFunc(want, func(w *bench.Run) bool { return w.Header.ID == r.Header.ID })
		if i < 0 || diff(want[i].Header, r.Header) != "" {
			t.Fatalf("run %s did not exist", r.Header.ID)
		}
		w := want[i]
		for n, s := range r.Samples {
			if slices.Contains(s.Notes, bench.NoteDamaged) {
				if s.Trial != w.Samples[n].Trial || s.Outcome != bench.Failed || s.Values != nil {
					t.Fatalf("%+v replaces %+v", s, w.Samples[n].Trial)
				}
				continue
			}
			if d := diff(w.Samples[n], s); d != "" {
				t.Fatalf("sample %d (-want +got):\n%s", n, d)
			}
			pieces++
		}
		for n, one := range r.Resumptions {
			if d := diff(w.Resumptions[n], one); d != "" {
				t.Fatalf("resumption (-want +got):\n%s", d)
			}
			pieces++
		}
		if r.End != nil {
			if d := diff(w.End, r.End); d != "" || len(r.Samples) != len(w.Samples) {
				t.Fatalf("the end comes after %d of %d samples, (-want +got):\n%s", len(r.Samples), len(w.Samples), d)
			}
			pieces++
		}
	}
	return pieces
}

func TestSalvageReadsEverythingElse(t *testing.T) {
	want, text := two(t)
	lines := strings.SplitAfter(strings.TrimSuffix(text, "\n"), "\n")
	perRun := len(lines) / 2
	all := 2 * (perRun - 1) // without the headers
	for i, line := range lines {
		changed := slices.Clone(lines)
		changed[i] = strings.Replace(line, `_ns":`, `_ms":`, 1)
		if changed[i] == line {
			changed[i] = strings.Replace(line, `time":`, `tyme":`, 1)
		}
		got, faults, err := salvage([]byte(strings.Join(changed, "")))
		if err != nil {
			t.Fatal(err)
		}
		var first *record.Error
		if !errors.As(faults, &first) || first.Line != i+1 || !errors.Is(faults, record.ErrDamaged) {
			t.Errorf("line %d: %v", i+1, faults)
		}
		pieces := onlyOriginal(t, want, got)
		lost := all - pieces
		switch {
		case i%perRun == 0: // a header
			if lost != perRun-1 || len(got) != 1 {
				t.Errorf("line %d: %d pieces are lost, want those of its run, %d", i+1, lost, perRun-1)
			}
		case strings.HasPrefix(line, `{"sample"`):
			if lost != 1 || got[i/perRun].End == nil {
				t.Errorf("line %d: %d pieces are lost, want 1", i+1, lost)
			}
		default:
			if lost > perRun-1 || len(got) != 2 {
				t.Errorf("line %d: %d pieces are lost of %d runs", i+1, lost, len(got))
			}
		}
	}
}

// Whatever is damaged, nothing else changes and no piece gets into another run.
func TestSalvageInventsNothing(t *testing.T) {
	want, text := two(t)
	check := func(changed []byte) {
		t.Helper()
		got, faults, err := salvage(changed)
		pieces := onlyOriginal(t, want, got)
		all := 2 * (len(want[0].Samples) + len(want[0].Resumptions) + 1)
		whole := bytes.HasSuffix(changed, []byte("\n")) // or else the last line was not finished
		if pieces < all && whole && faults == nil && err == nil {
			t.Errorf("%d of %d pieces are left, and nothing says so", pieces, all)
		}
	}
	for at := range text {
		changed := []byte(text)
		changed[at] ^= 1 << (at % 8)
		check(changed)
	}
	random := rand.New(rand.NewPCG(1, 2))
	repeat := 2000
	if testing.Short() {
		repeat = 200
	}
	for range repeat {
		changed := []byte(text)
		from := random.IntN(len(text))
		clear(changed[from:min(len(text), from+random.IntN(4096))])
		check(changed)
	}
	lines := strings.SplitAfter(text, "\n")
	for range repeat {
		changed := slices.Clone(lines)
		from := random.IntN(len(lines))
		for i := from; i < min(len(lines), from+random.IntN(12)); i++ {
			changed[i] = strings.ReplaceAll(changed[i], "a", "e")
		}
		check([]byte(strings.Join(changed, "")))
	}
}

func TestSalvageRefusesWhatIsNoRecord(t *testing.T) {
	for _, text := range []string{"", "{}\n", "no record\n", `{"tare":"record","version":99}` + "\n"} {
		runs, faults, err := salvage([]byte(text))
		if len(runs) > 0 || faults != nil || (err == nil) != (text == "") {
			t.Errorf("%q: %d runs, %v, %v", text, len(runs), faults, err)
		}
	}
}

func TestFaultsNameTheLines(t *testing.T) {
	_, text := two(t)
	lines := strings.SplitAfter(text, "\n")
	lines[2] = strings.Replace(lines[2], "_ns", "_ms", 1)
	lines[4] = strings.Replace(lines[4], "_ns", "_ms", 1)
	_, faults, err := salvage([]byte(strings.Join(lines, "")))
	if err != nil || faults == nil || !strings.HasPrefix(faults.Error(), "line 3: run 20261120-093000-k3v9, at trial ") ||
		!strings.HasSuffix(faults.Error(), "; further bad lines: 5") {
		t.Errorf("%v; %v", faults, err)
	}
}
