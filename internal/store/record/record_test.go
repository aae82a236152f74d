package record_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/store/record"
	"github.com/tare-bench/tare/internal/store/storetest"
	"github.com/tare-bench/tare/internal/text/plain"
)

// example is the run that docs/format.md shows.
func example() *bench.Run {
	began := time.Date(2026, 11, 20, 9, 30, 0, 0, time.UTC)
	host := bench.HostFacts{
		Hostname: "node7", MachineID: "5f1d", BootID: "c0ffee", OS: "Debian GNU/Linux 12 (bookworm)", Kernel: "6.18.44",
		Arch: "amd64", CPU: "AMD EPYC 7B13", CPUs: 2, Memory: 25_281_921_024, Cgroup: "v2", Virtual: "kvm",
		Clock: "tsc", Privileged: true,
	}
	applied := func(runtime string) *bench.Applied {
		return &bench.Applied{
			Runtime: runtime, Image: "sha256:6c3c", Argv: []string{"/tare-agent", "mark"}, Network: "none",
			Storage: "overlay", Cgroup: "v2 cgroupfs",
		}
	}
	levels := func(engine string) []bench.Label { return []bench.Label{{Key: "engine", Value: engine}} }
	return &bench.Run{
		Header: bench.Header{
			ID: "20261120-093000-k3v9", Tool: "1.0.0", Began: began,
			Plan: bench.Plan{
				Name: "lifecycle", Workload: "lifecycle",
				Factors: []bench.Factor{{Name: "engine", Levels: []string{"runc", "crun"}}},
				Cells: []bench.Cell{
					{Name: "runc", Baseline: true, Engine: "runc", Levels: levels("runc")},
					{Name: "crun", Engine: "crun", Levels: levels("crun")},
				},
				Seed: 42, Warmup: 1, MinBlocks: 1, MaxBlocks: 1, Precision: 0.03, Budget: 2 * time.Minute,
				TrialTime: time.Minute, OpTime: 30 * time.Second, Washout: time.Second,
			},
			Schedule: [][]int{{1, 0}, {0, 1}},
			Metrics: []bench.Metric{
				{Name: "total", Title: "total", Unit: "s", Better: bench.Lower, Role: bench.Primary, Scale: bench.Ratio, Doc: "From before create to after remove."},
				{
					Name: "major_faults", Title: "major faults", Unit: "1", Better: bench.Lower, Role: bench.Counter,
					Scale: bench.Difference, Doc: "Page faults that read from a disk.",
				},
			},
			Engines: []bench.EngineInfo{
				{Name: "runc", Driver: "oci", Version: "1.1.5"}, {Name: "crun", Driver: "oci", Version: "1.8.1"},
			},
			Name: "before-upgrade", Remarks: []bench.Remark{
				{Time: began.Add(24 * time.Hour), Text: "the last one with kernel 6.18"},
			},
			Host: host,
			Warnings: []bench.Warning{
				{Code: "virtual-machine", Text: "this is a virtual machine (kvm)", Hint: "neighbours are felt here: use more blocks"},
			},
		},
		Samples: []bench.Sample{
			{
				Trial: bench.Trial{Seq: 0, Block: -1, Cell: 1}, Began: began.Add(1250 * time.Millisecond), Elapsed: 9_120_334,
				Outcome: bench.OK, Values: []float64{0.007301122, 0}, Applied: applied("crun"),
			},
			{
				Trial: bench.Trial{Seq: 1, Block: -1, Cell: 0}, Began: began.Add(2 * time.Second), Elapsed: 23_004_120,
				Outcome: bench.OK, Values: []float64{0.019400517, math.NaN()}, Applied: applied("runc"),
				Notes: []string{bench.NoteHostClock},
			},
			{
				Trial: bench.Trial{Seq: 2, Block: 0, Cell: 0}, Began: began.Add(61 * time.Second), Elapsed: 21_871_002,
				Counted: 19_004_310, Outcome: bench.OK, Values: []float64{
					0.018912004, 1,
				}, Series: []bench.Series{{Metric: "create", Values: []float64{0.008100551, 0.007940002}}},
				Trace: &bench.Trace{Events: []bench.TraceEvent{
					{At: 1_204_310, Name: "exec", Source: "runc", Attributes: []bench.Label{{Key: "file", Value: "/proc/self/exe"}}},
					{At: 9_310_022, Name: "exit", Source: "runc:[1:CHILD]"},
				}, LeftOut: 7}, Applied: applied("runc"),
			},
			{
				Trial: bench.Trial{Seq: 3, Block: 0, Cell: 1}, Began: began.Add(62 * time.Second), Elapsed: 30_000_412_337,
				Outcome: bench.TimedOut, Operation: "total", Reason: "start: took longer than 30s",
			},
		},
		Resumptions: []bench.Resumption{{Time: began.Add(time.Minute), Tool: "1.0.0", Seq: 2, Host: host}},
		End: &bench.End{
			Time: began.Add(93 * time.Second), Reason: bench.StopBlocks,
			Overhead: bench.Overhead{NullOperation: 310, CPU: 41_000_000, Wall: 33_400_000_000, MaxRSS: 31_457_280},
		},
	}
}

// Equal runs have the same bits, but that NaN is NaN.
func diff(want, got any) string {
	return cmp.Diff(want, got, cmpopts.EquateNaNs())
}

func encode(t *testing.T, runs ...*bench.Run) string {
	t.Helper()
	var b strings.Builder
	for _, run := range runs {
		if err := record.Write(&b, run); err != nil {
			t.Fatal(err)
		}
	}
	return b.String()
}

// read returns the runs before the first error.
func read(r io.Reader) ([]*bench.Run, error) {
	var runs []*bench.Run
	for run, err := range record.Read(r) {
		if err != nil {
			return runs, err
		}
		runs = append(runs, run)
	}
	return runs, nil
}

func TestRoundTrip(t *testing.T) {
	full := example()
	incomplete := example()
	incomplete.End, incomplete.Samples = nil, incomplete.Samples[:3]
	empty := example()
	empty.Samples, empty.Resumptions, empty.End = nil, nil, nil
	resumedTwice := example()
	resumedTwice.Resumptions = append(resumedTwice.Resumptions, resumedTwice.Resumptions[0], resumedTwice.Resumptions[0])
	resumedTwice.Resumptions[2].Seq = 4 // after the last sample
	margins := example()
	margins.Header.Plan.Margins = []bench.Margin{
		{Metric: "total", Smallest: 0.2, Precision: 0.1}, {Metric: "major_faults", Precision: 0.3}, {Metric: "create"},
	}

	want := []*bench.Run{full, incomplete, empty, resumedTwice, margins, full}
	for name, reader := range map[string]func(io.Reader) io.Reader{
		"at once":       func(r io.Reader) io.Reader { return r },
		"byte by byte":  iotest.OneByteReader,
		"data with EOF": iotest.DataErrReader,
	} {
		got, err := read(reader(strings.NewReader(encode(t, want...))))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if d := diff(want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}

func TestValuesKeepEveryBit(t *testing.T) {
	run := example()
	run.Samples = nil
	for i, v := range []float64{
		0, math.Copysign(0, -1), 1, 0.1, 1.0 / 3, math.Pi * 1e-9, 5e-324, math.SmallestNonzeroFloat64 * 3,
		math.MaxFloat64, -math.MaxFloat64, math.Inf(1), math.Inf(-1), math.Nextafter(1, 2), 1 << 53, 1e21,
	} {
		run.Samples = append(run.Samples,
			bench.Sample{Trial: bench.Trial{Seq: i}, Outcome: bench.OK, Values: []float64{v, math.NaN()}})
	}
	run.Resumptions = nil
	got, err := read(strings.NewReader(encode(t, run)))
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range got[0].Samples {
		if want := run.Samples[i].Values[0]; math.Float64bits(s.Values[0]) != math.Float64bits(want) {
			t.Errorf("%v came back as %v", want, s.Values[0])
		}
		if !math.IsNaN(s.Values[1]) {
			t.Errorf("NaN came back as %v", s.Values[1])
		}
	}
}

func TestHostileStringsComeBack(t *testing.T) {
	run := example()
	for _, s := range []string{
		"\x00\x01\x1b[31mred\x1b[0m", "a\nb\r\n", `"}{\`, "\u2028 \u202e evil", "<script>&", "日本 🐳",
		strings.Repeat("x", 1<<20),
	} {
		run.Samples[3].Reason = s
		got, err := read(strings.NewReader(encode(t, run)))
		if err != nil {
			t.Fatalf("%.40q: %v", s, err)
		}
		if d := diff(run, got[0]); d != "" {
			t.Errorf("%.40q (-want +got):\n%.400s", s, d)
		}
	}
}

// unsummed is a stream without its checksums, as those were that older versions wrote.
func unsummed(text string) string { return sums.ReplaceAllLiteralString(text, "") }

var sums = regexp.MustCompile(`,"crc32c":"[0-9a-f]{8}"`)

// No bit of a stream can be another one without an error that says where, but
// for the last newline, which may be missing.
func TestFlippedBitsAreSeen(t *testing.T) {
	want := example()
	text := []byte(encode(t, want))
	for at := range text {
		bit := at % 8
		text[at] ^= 1 << bit
		runs, err := read(bytes.NewReader(text))
		text[at] ^= 1 << bit
		if err != nil {
			continue
		}
		if d := diff([]*bench.Run{want}, runs); d != "" {
			t.Fatalf("bit %d of byte %d (-want +got):\n%s", bit, at, d)
		}
	}
	at := bytes.Index(text, []byte("0.018912004"))
	text[at] ^= 1
	_, err := read(bytes.NewReader(text))
	if !errors.Is(err, record.ErrDamaged) ||
		!strings.Contains(err.Error(), "line 5: run 20261120-093000-k3v9, at trial 2") {
		t.Errorf("error %v", err)
	}
}

// A run has checksums in all of its lines, or, if an older version wrote it, in none.
func TestMissingChecksumIsSeen(t *testing.T) {
	text := encode(t, example())
	d := record.NewDecoder(strings.NewReader(unsummed(text)))
	if _, err := d.Next(); err != nil || d.Summed() {
		t.Errorf("an old run: summed %v, %v", d.Summed(), err)
	}
	d = record.NewDecoder(strings.NewReader(text))
	if _, err := d.Next(); err != nil || !d.Summed() {
		t.Errorf("a new run: summed %v, %v", d.Summed(), err)
	}
	lines := strings.SplitAfter(text, "\n")
	for i := range lines[:len(lines)-1] {
		one := slices.Clone(lines)
		one[i] = unsummed(lines[i])
		if _, err := read(strings.NewReader(strings.Join(one, ""))); !errors.Is(err, record.ErrDamaged) {
			t.Errorf("line %d has no checksum, and the error is %v", i+1, err)
		}
	}
}

// Cutting the stream at any byte gives a prefix of the run, or an error where
// not even the header is whole; never a wrong sample.
func TestEveryPrefixIsAnIncompleteRun(t *testing.T) {
	want := example()
	text := encode(t, want)
	header := strings.Index(text, "\n")
	for cut := range len(text) {
		runs, err := read(strings.NewReader(text[:cut]))
		switch {
		case cut == 0:
			if err != nil || runs != nil {
				t.Fatalf("the empty stream: %v, %v", runs, err)
			}
			continue
		case cut < header:
			if !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Fatalf("cut at %d, within the header: %v", cut, err)
			}
			continue
		case err != nil || len(runs) != 1:
			t.Fatalf("cut at %d: %d runs, %v", cut, len(runs), err)
		}
		got := runs[0]
		prefix := &bench.Run{
			Header: want.Header, Samples: want.Samples[:len(got.Samples)], Resumptions: want.Resumptions[:len(got.Resumptions)],
		}
		if cut == len(text)-1 { // only the newline is missing
			prefix.End = want.End
		}
		if d := cmp.Diff(prefix, got, cmpopts.EquateNaNs(), cmpopts.EquateEmpty()); d != "" {
			t.Fatalf("cut at %d (-want +got):\n%s", cut, d)
		}
	}
}

func TestTornIsReported(t *testing.T) {
	text := encode(t, example())
	for _, tt := range []struct {
		name string
		text string
		torn bool
	}{
		{"whole", text, false},
		{"without its last newline", text[:len(text)-1], false},
		{"cut off", text[:len(text)-2], true},
		{"zeros after a power cut", text[:strings.Index(text, "\n")+1] + "\x00\x00\x00", true},
	} {
		d := record.NewDecoder(strings.NewReader(tt.text))
		var err error
		for err == nil {
			_, err = d.Next()
		}
		if !errors.Is(err, io.EOF) || d.Truncated() != tt.torn {
			t.Errorf("%s: Torn = %v after %v, want %v", tt.name, d.Truncated(), err, tt.torn)
		}
	}
}

func TestRefused(t *testing.T) {
	text := unsummed(encode(t, example()))
	lines := strings.SplitAfter(strings.TrimSuffix(text, "\n"), "\n")
	for _, tt := range []struct {
		name     string
		line     int // from 1
		old, new string
		want     string
	}{
		{"not JSON at all", 1, `{"tare"`, "PK\x03\x04", "line 1: not JSON"},
		{"other JSON", 1, `"tare":"record"`, `"goos":"linux"`, `line 1: not a record of tare`},
		{"other kind", 1, `"tare":"record"`, `"tare":"report"`, `line 1: "tare" is "report"`},
		{"newer version", 1, `"version":1`, `"version":2`, "line 1: the record was written by a newer version of tare (its format is 2, this tare reads up to 1)"},
		{"no version", 1, `"version":1,`, ``, `line 1: "version" is missing`},
		{"hostile run ID", 1, `20261120-093000-k3v9`, `../../etc`, `line 1: not a run ID: "../../etc"`},
		{"no cells", 1, `"cells":[`, `"cells":[],"x":[`, "line 1: the plan has 0 cells"},
		{"two margins of a metric", 1, `"cells":[`, `"margins":[{"metric":"a"},{"metric":"a"}],"cells":[`, `the plan has two margins for "a"`},
		{"too many margins", 1, `"cells":[`, `"margins":[{}` + strings.Repeat(",{}", 1024) + `],"cells":[`, "the plan has 1025 margins"},
		{"margin that is a number", 1, `"cells":[`, `"margins":[5],"cells":[`, `line 1: "plan.margins" cannot be a number`},
		{"schedule out of range", 1, `"schedule":[[1,0]`, `"schedule":[[2,0]`, "block 0 of the schedule has cell 2, but the plan has only 2 cells"},
		{"negative warm-up", 1, `"warmup":1`, `"warmup":-1`, "-1 warm-up blocks"},
		{"metric twice", 1, `"name":"major_faults"`, `"name":"total"`, `two metrics are named "total"`},
		{"metric without name", 1, `"name":"total"`, `"name":""`, `metric 0 has no name`},
		{"metric of unknown role", 1, `"role":"primary"`, `"role":"boss"`, `metric "total": "role" is "boss"`},
		{"metric of unknown direction", 1, `"better":"lower"`, `"better":"up"`, `metric "total": "better" is "up"`},
		{"metric of unknown scale", 1, `"scale":"ratio"`, `"scale":"log"`, `metric "total": "scale" is "log"`},
		{"name with blanks", 1, `"name":"before-upgrade"`, `"name":"before upgrade"`, `not a name for a run: "before upgrade"`},
		{"name like an ID", 1, `"name":"before-upgrade"`, `"name":"20261120-093000-k3v9"`, "not a name for a run"},
		{"name of the newest", 1, `"name":"before-upgrade"`, `"name":"LAST"`, "means the newest one"},
		{"endless name", 1, `"name":"before-upgrade"`, `"name":"` + strings.Repeat("a", 65) + `"`, "has 65 characters"},
		{"note without text", 1, `"text":"the last one with kernel 6.18"`, `"text":" \n"`, "a note has no text"},
		{"endless note", 1, `"text":"the last one with kernel 6.18"`, `"text":"` + strings.Repeat("a", 4097) + `"`, "a note of 4097 bytes"},
		{"note of no time", 1, `"notes":[{"time":"2026-11-21T09:30:00Z",`, `"notes":[{`, "a note has no time"},
		{"too many notes", 1, `"notes":[`, `"notes":[` + strings.Repeat(`{"time":"2026-11-21T09:30:00Z","text":"x"},`, 100), "the run has 101 notes"},
		{"no beginning", 1, `"began":"2026-11-20T09:30:00Z",`, ``, `no "began"`},
		{"string for a number", 1, `"warmup":1`, `"warmup":"1"`, `line 1: "plan.warmup" cannot be a string`},

		{"sample is an array", 2, `{"sample":{`, `{"sample":[{`, "line 2: not JSON"},
		{"wrong seq", 2, `"seq":0`, `"seq":1`, "line 2: sample 1: out of order: sample 0 comes next"},
		{"fraction for seq", 2, `"seq":0`, `"seq":0.5`, `line 2: "seq" cannot be a number 0.5`},
		{"no seq", 2, `"seq":0,`, ``, `line 2: a sample needs "seq", "block" and "cell"`},
		{"cell out of range", 2, `"cell":1`, `"cell":2`, "line 2: sample 0: it is of cell 2"},
		{"negative cell", 2, `"cell":1`, `"cell":-1`, "line 2: sample 0: it is of cell -1"},
		{"block before the warm-up", 2, `"block":-1`, `"block":-2`, "block -2 is not in the schedule"},
		{"block after the last", 2, `"block":-1`, `"block":1`, "block 1 is not in the schedule"},
		{"unknown outcome", 5, `"timed-out"`, `"great"`, `line 6: sample 3: unknown outcome "great"`},
		{"no outcome", 5, `"outcome":"timed-out",`, ``, `unknown outcome ""`},
		{"part without a name", 5, `"outcome":`, `"parts":[{"outcome":"ok"}],"outcome":`, `line 6: sample 3: a part has no name`},
		{"unknown outcome of a part", 5, `"outcome":`, `"parts":[{"part":"a","outcome":"skipped"}],"outcome":`, `part "a": unknown outcome "skipped"`},
		{"undeclared metric", 2, `"total":`, `"totel":`, `line 2: it has a value of "totel", which the header does not declare`},
		{"value twice", 2, `"total":`, `"total":1,"total":`, `two values of "total"`},
		{"value out of range", 2, `0.007301122`, `1e999`, `value of "total": number 1e999 is out of range`},
		{"value is a string", 2, `0.007301122`, `"NaN"`, `value of "total": not a number`},
		{"value is null", 2, `0.007301122`, `null`, `value of "total": not a number`},
		{"values are an array", 2, `{"total":0.007301122,"major_faults":0}`, `[1,2]`, `"values" is not an object`},
		{"ok without values", 2, `"values":{"total":0.007301122,"major_faults":0},`, ``, "it has 0 values, but the run has 2 metrics"},
		{"failed with values", 5, `"outcome":`, `"values":{"total":1},"outcome":`, "it has values although its outcome"},
		{"failed with series", 5, `"outcome":`, `"series":[{"metric":"a","values":[1]}],"outcome":`, "it has series although its outcome"},
		{"series is an object", 4, `"series":[{`, `"series":{"a":[{`, "line 5: not JSON"},
		{"series of nothing", 4, `"metric":"create"`, `"metric":""`, "line 5: sample 2: the series of"},
		{"series without values", 4, `"values":[0.008100551,0.007940002]`, `"values":[]`, `the series of "create" has no values`},
		{"series with null for values", 4, `"values":[0.008100551,0.007940002]`, `"values":null`, `"values" of a series is not an array`},
		{"series with an object for values", 4, `"values":[0.008100551,0.007940002]`, `"values":{}`, `"values" of a series is not an array`},
		{"null in a series", 4, `0.007940002`, `null`, "line 5: value 1 of a series: not a number"},
		{"list in a series", 4, `0.007940002`, `[1]`, "value 1 of a series: not a number"},
		{"infinity in a series", 4, `0.007940002`, `"+Inf"`, `the series of "create" contains the value +Inf`},
		{"failed with distributions", 5, `"outcome":`, `"distributions":[{"metric":"a","hdr":"AA=="}],"outcome":`, "it has distributions although its outcome"},
		{"distribution of nothing in series", 4, `"series":[`, `"distributions":[{"metric":"","hdr":"AA=="}],"series":[`, `the distribution of ""`},
		{"distribution without counts in series", 4, `"series":[`, `"distributions":[{"metric":"a"}],"series":[`, `the distribution of "a" has 0 bytes`},
		{
			"distribution in other letters in series",
			4, `"series":[`, `"distributions":[{"metric":"a","hdr":"A\n"}],"series":[`, `the distribution of "a" is not base64`,
		},
		{
			"distributions of one metric " +
				"twice in series", 4, `"series":[`,
			`"distributions":[{"metric":"a","hdr":"A"},{"metric":"a","hdr":"A"}],"series":[`,
			`two distributions of "a"`,
		},
		{"series of one metric twice", 4, `"series":[`, `"series":[{"metric":"create","values":[1]},`, `two series of "create"`},
		{"failed with a trace", 5, `"outcome":`, `"trace":{"left_out":1},"outcome":`, "it has a trace although its outcome"},
		{"trace of nothing beside series", 4, `"trace":{`, `"trace":{},"x":{`, "its trace has 0 events and 0 omitted ones"},
		{"null for an event beside series", 4, `"events":[`, `"events":[null,`, "event 0 of the trace has no name"},
		{"event before the trial beside series", 4, `"at_ns":1204310`, `"at_ns":-1`, "event 0 of the trace is at -1ns"},
		{"events out of order beside series", 4, `"at_ns":9310022`, `"at_ns":5`, "event 1 of the trace is at 5ns, but the event before it is at 1.20431ms"},
		{"negative time", 2, `"elapsed_ns":9`, `"elapsed_ns":-9`, "its duration is -9"},
		{"negative time counted", 2, `"elapsed_ns":9`, `"counted_ns":-1,"elapsed_ns":9`, "counters span -1ns"},
		{
			"more time counted than it took", 2, `"elapsed_ns":9`, `"counted_ns":99999999,"elapsed_ns":9`,
			"counters span 99.999999ms, which is not within the 9.120334ms",
		},
		{"failed with time counted", 5, `"outcome":`, `"counted_ns":1,"outcome":`, "although its outcome"},
		{"year 10000", 2, `"began":"2026`, `"began":"12026`, "line 2: "},
		{"null for a sample", 2, lines[1], "{\"sample\":null}\n", "a sample needs"},
		{"two kinds", 2, `{"sample"`, `{"end":{},"sample"`, "line 2: the line has the keys of two kinds of line"},
		{"second header in the place of a sample", 2, lines[1], "{\"tare\":\"record\"}\n", `line 2: "version" is missing`},
		{"resumed at the wrong trial", 4, `"seq":2`, `"seq":3`, "line 4: it was resumed at trial 3, but trial 2 comes next"},
		{"resumed at no time", 4, `"time":"2026-11-20T09:31:00Z",`, ``, `a resumption has no "time"`},
		{"unknown end", 7, `"reason":"blocks"`, `"reason":"bored"`, `line 7: unknown reason "bored" for the end of the run`},
		{"no time of end", 7, `"time":"2026-11-20T09:31:33Z",`, ``, `the end has no "time"`},
		{"sample after the end", 7, lines[6], lines[6] + "\n" + lines[5], "line 8: this line belongs to no run"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			broken := slices.Clone(lines)
			at := tt.line - 1
			if tt.line == 5 || tt.line == 4 && strings.Contains(tt.name, "series") { // these samples are behind the resumption
				at++
			}
			if broken[at] = strings.Replace(lines[at], tt.old, tt.new, 1); broken[at] == lines[at] {
				t.Fatalf("line %d has no %s:\n%s", at+1, tt.old, lines[at])
			}
			_, err := read(strings.NewReader(strings.Join(broken, "")))
			var where *record.Error
			if !errors.As(err, &where) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want an error with %q", err, tt.want)
			}
		})
	}
}

func TestNewerVersionIsKnown(t *testing.T) {
	_, err := read(strings.NewReader(`{"tare":"record","version":2,"id":{"new":"shape"}}`))
	if !errors.Is(err, record.ErrVersion) {
		t.Errorf("got %v, want ErrVersion", err)
	}
}

// What a later version may add within format 1 is passed over.
func TestUnknownFieldsAndLinesArePassedOver(t *testing.T) {
	want := example()
	text := unsummed(encode(t, want))
	text = strings.ReplaceAll(text, `{"tare":"record"`, `{"mood":{"good":[1]},"tare":"record"`)
	text = strings.ReplaceAll(text, `{"sample":{`, "{\"histogram\":{\"seq\":9}}\n\n\r\n{\"sample\":{\"colour\":\"red\",")
	got, err := read(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if d := diff([]*bench.Run{want}, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestRunsBeforeAnErrorAreRead(t *testing.T) {
	runs, err := read(strings.NewReader(encode(t, example()) + "{\"tare\":\"rec"))
	if len(runs) != 1 || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%d runs, %v", len(runs), err)
	}
}

func TestReadStopsWhenAsked(t *testing.T) {
	incomplete := example()
	incomplete.End = nil
	for _, first := range []*bench.Run{example(), incomplete} {
		n := 0
		for _, err := range record.Read(strings.NewReader(encode(t, first, example()))) {
			if n++; err != nil || n == 1 {
				break
			}
		}
		if n != 1 {
			t.Errorf("%d runs after the first break", n)
		}
	}
}

func TestReaderErrorIsKept(t *testing.T) {
	broken := errors.New("connection reset")
	text := encode(t, example())
	_, err := read(io.MultiReader(strings.NewReader(text[:len(text)/2]), iotest.ErrReader(broken)))
	if !errors.Is(err, broken) {
		t.Errorf("got %v, want %v", err, broken)
	}
}

// endless is a line that never ends.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

func TestEndlessLineIsRefused(t *testing.T) {
	_, err := read(endless{})
	if err == nil || err.Error() != "line 1: the line has more than 16 MiB" {
		t.Errorf("got %v", err)
	}
}

// A few bytes must not become gigabytes: each empty sample of a run with many
// metrics takes 8 kB in memory.
func TestNumberOfValuesIsBounded(t *testing.T) {
	run := example()
	for len(run.Header.Metrics) < 1024 {
		m := run.Header.Metrics[0]
		m.Name = strings.Repeat("m", len(run.Header.Metrics))
		run.Header.Metrics = append(run.Header.Metrics, m)
	}
	s := bench.Sample{Outcome: bench.OK, Values: make([]float64, 1024)}
	s.Trial.Seq = 1<<16 - 1
	if err := record.ValidateSample(&run.Header, s.Trial.Seq, &s); err != nil {
		t.Error(err)
	}
	s.Trial.Seq++
	if err := record.ValidateSample(&run.Header, s.Trial.Seq, &s); err == nil {
		t.Error("no bound")
	}
	run.Header.Metrics = append(run.Header.Metrics, run.Header.Metrics[0])
	if err := record.ValidateHeader(&run.Header); err == nil {
		t.Error("1025 metrics are accepted")
	}
}

// A sample has as many values of single operations as a few milliseconds can
// read, and no more.
func TestSeriesAreBounded(t *testing.T) {
	many := func(n int) []float64 { return make([]float64, n) }
	for _, tt := range []struct {
		name   string
		series []bench.Series
		ok     bool
	}{
		{"most", []bench.Series{{Metric: "a", Values: many(bench.MaxSeriesValues - 1)}, {Metric: "b", Values: many(1)}}, true},
		{"one more", []bench.Series{{Metric: "a", Values: many(bench.MaxSeriesValues)}, {Metric: "b", Values: many(1)}}, false},
		{"NaN", []bench.Series{{Metric: "a", Values: []float64{math.NaN()}}}, false},
		{"long name", []bench.Series{{Metric: strings.Repeat("x", 1025), Values: many(1)}}, false},
		{"many", slices.Repeat([]bench.Series{{Metric: "a", Values: many(1)}}, 1025), false},
	} {
		run := example()
		run.Samples[2].Series = tt.series
		var b bytes.Buffer
		err := record.Write(&b, run)
		if (err == nil) != tt.ok {
			t.Errorf("%s: error %v", tt.name, err)
		}
		if err != nil {
			continue
		}
		if got, err := read(&b); err != nil || diff([]*bench.Run{run}, got) != "" {
			t.Errorf("%s: it comes back otherwise, %v", tt.name, err)
		}
	}
}

// failingWriter is a writer that takes n bytes and then fails.
type failingWriter struct {
	n      int
	writes [][]byte
}

func (b *failingWriter) Write(p []byte) (int, error) {
	if len(p) > b.n {
		return b.n, io.ErrShortWrite
	}
	b.n -= len(p)
	b.writes = append(b.writes, bytes.Clone(p))
	return len(p), nil
}

func TestWriterWritesWholeLines(t *testing.T) {
	b := &failingWriter{n: 1 << 20}
	if err := record.Write(b, example()); err != nil {
		t.Fatal(err)
	}
	if len(b.writes) != 7 {
		t.Errorf("%d writes, want 7", len(b.writes))
	}
	for _, w := range b.writes {
		if bytes.IndexByte(w, '\n') != len(w)-1 {
			t.Errorf("not one line: %q", w)
		}
	}
}

func TestWriterStopsAfterAnError(t *testing.T) {
	run := example()
	text := encode(t, run)
	b := &failingWriter{n: strings.Index(text, "\n") + 1}
	w, err := record.NewWriter(b, run.Header)
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	if err := w.Append(ctx, run.Samples[0]); !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("Append to a full disk: %v", err)
	}
	b.n = 1 << 20
	if err := w.Append(ctx, run.Samples[0]); !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("Append after half a line: %v", err)
	}
	if len(b.writes) != 1 {
		t.Error("something was written after half a line")
	}
}

// An extended run is read as it was written, and so are the samples that its first schedule
// did not have; the header that was read stays what it was.
func TestExtendedRoundTrip(t *testing.T) {
	want, _ := storetest.Extended("a", 4)
	var stream bytes.Buffer
	if err := record.Write(&stream, want); err != nil {
		t.Fatal(err)
	}
	for got, err := range record.Read(bytes.NewReader(stream.Bytes())) {
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, got, cmpopts.EquateNaNs()); d != "" {
			t.Errorf("-want +got:\n%s", d)
		}
	}
	want.Resumptions[1].Extension = nil
	if err := record.Write(io.Discard, want); err == nil {
		t.Error("samples behind the schedule are written without the extension")
	}
}

func TestWriterContract(t *testing.T) {
	run := example()
	ctx := context.Background()
	w, err := record.NewWriter(io.Discard, run.Header)
	if err != nil {
		t.Fatal(err)
	}
	gone, cancel := context.WithCancel(ctx)
	cancel()
	if err := w.Append(gone, run.Samples[0]); !errors.Is(err, context.Canceled) {
		t.Errorf("Append with an ended context: %v", err)
	}
	if err := w.Finish(gone, *run.End); !errors.Is(err, context.Canceled) {
		t.Errorf("Finish with an ended context: %v", err)
	}
	if err := w.Append(ctx, run.Samples[1]); err == nil {
		t.Error("Append out of order succeeded")
	}
	if err := w.Append(ctx, run.Samples[0]); err != nil {
		t.Errorf("Append after one that was refused: %v", err)
	}
	if err := w.Resume(run.Resumptions[0]); err == nil {
		t.Error("Resume at the wrong trial succeeded")
	}
	if err := w.Finish(ctx, bench.End{}); err == nil {
		t.Error("Finish without a reason succeeded")
	}
	if err := w.Finish(ctx, *run.End); err != nil {
		t.Error(err)
	}
	for what, err := range map[string]error{
		"Append": w.Append(ctx, run.Samples[1]),
		"Resume": w.Resume(run.Resumptions[0]),
		"Finish": w.Finish(ctx, *run.End),
	} {
		if !errors.Is(err, bench.ErrFinished) {
			t.Errorf("%s after Finish: %v", what, err)
		}
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
}

func TestWriteRefusesWhatCannotBeRead(t *testing.T) {
	for name, spoil := range map[string]func(*bench.Run){
		"invalid ID":             func(r *bench.Run) { r.Header.ID = "A" },
		"NaN in the plan":        func(r *bench.Run) { r.Header.Plan.Precision = math.NaN() },
		"year 10000":             func(r *bench.Run) { r.Samples[0].Began = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC) },
		"line too long":          func(r *bench.Run) { r.Samples[3].Reason = strings.Repeat("x", record.MaxLine) },
		"resumption at no trial": func(r *bench.Run) { r.Resumptions[0].Seq = 9 },
		"resumption out of order": func(r *bench.Run) {
			r.Resumptions = append(r.Resumptions, r.Resumptions[0])
			r.Resumptions[1].Seq = 1
		},
		"end without a time": func(r *bench.Run) { r.End.Time = time.Time{} },
	} {
		run := example()
		spoil(run)
		if err := record.Write(io.Discard, run); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func FuzzRead(f *testing.F) {
	var b bytes.Buffer
	if err := record.Write(&b, example()); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Add(b.Bytes()[:b.Len()-9])
	f.Add(append(b.Bytes(), b.Bytes()...))
	f.Add(
		[]byte(
			"{\"tare\":\"record\",\"version\":1,\"id\":\"a\",\"began\":\"2026-01-01T00:00:00Z\",\"plan\":{\"cells\":[{}]}}\n{\"sample\":{\"seq\":0,\"block\":0,\"cell\":0,\"outcome\":\"ok\",\"values\":{}}}",
		),
	)
	f.Add(
		bytes.ReplaceAll(b.Bytes(), []byte(`"values":[0.008100551,`), []byte(`"values":[null,"+Inf",-0,1e-330],"values":[`)),
	)
	f.Add(bytes.ReplaceAll(b.Bytes(), []byte(`"series":[`), []byte(`"series":[null,{},{"metric":"\u0000"},`)))
	f.Add(bytes.ReplaceAll(b.Bytes(), []byte(`"trace":{"events":[`),
		[]byte(`"trace":{"left_out":-1,"events":[null,{"at_ns":1e3,"name":"\u0000","attributes":[null,{}]},`)))
	f.Add(bytes.ReplaceAll(b.Bytes(), []byte(`"trace":{`), []byte(`"trace":null,"trace":{"left_out":1,`)))
	f.Add(
		bytes.ReplaceAll(b.Bytes(), []byte(`"notes":[{`),
			[]byte(`"notes":[{"time":"2026-11-20T09:30:00Z","text":"\u001b\n日本"},{`)),
	)
	f.Add(bytes.ReplaceAll(b.Bytes(), []byte(`"name":"before-upgrade"`), []byte(`"name":"last"`)))
	f.Add(
		bytes.ReplaceAll(b.Bytes(), []byte(`"reason":"`), []byte("\"reason\":\"\u202e\u2066\u200b\u009b2J\u007f\U000e0041")),
	)
	f.Fuzz(func(t *testing.T, text []byte) {
		for run, err := range record.Read(bytes.NewReader(text)) {
			if err != nil {
				return
			}
			// What was read can be written, and is the same when read again.
			var b bytes.Buffer
			if err := record.Write(&b, run); err != nil {
				t.Fatalf("what was read cannot be written: %v", err)
			}
			hides := func(r rune) bool { return r != '\n' && r != '\ufffd' && plain.IsHidden(r) }
			if bytes.ContainsFunc(b.Bytes(), hides) {
				t.Fatalf("a terminal would obey %q", b.Bytes())
			}
			again, err := read(&b)
			if err != nil || len(again) != 1 {
				t.Fatalf("what was written cannot be read: %v", err)
			}
			if d := cmp.Diff(run, again[0], cmpopts.EquateNaNs(), cmpopts.EquateEmpty()); d != "" {
				t.Fatalf("(-first +second):\n%s", d)
			}
		}
	})
}

// thousands returns a run of 20,000 samples with 50 values each.
func thousands() *bench.Run {
	run := example()
	run.Resumptions, run.Header.Schedule = nil, nil
	for len(run.Header.Metrics) < 50 {
		m := run.Header.Metrics[1]
		m.Name += strings.Repeat("x", len(run.Header.Metrics))
		run.Header.Metrics = append(run.Header.Metrics, m)
	}
	s := run.Samples[0]
	s.Values = make([]float64, 50)
	for i := range s.Values {
		s.Values[i] = math.Sqrt(float64(i)) * 1e-3
	}
	run.Samples = nil
	for i := range 20_000 {
		s.Trial.Seq = i
		run.Samples = append(run.Samples, s)
	}
	return run
}

func BenchmarkWriteMillionValues(b *testing.B) {
	run := thousands()
	for b.Loop() {
		if err := record.Write(io.Discard, run); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkReadMillionValues(b *testing.B) {
	var text bytes.Buffer
	if err := record.Write(&text, thousands()); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(text.Len()))
	for b.Loop() {
		if _, err := read(bytes.NewReader(text.Bytes())); err != nil {
			b.Fatal(err)
		}
	}
}

// A report has no series, distributions and traces, so they are not kept for it. There is room for
// all trials of the schedule from the beginning: a slice that grows is in memory twice.
func TestCollectValues(t *testing.T) {
	want := storetest.Example("a", 200)
	got, err := record.CollectValues(record.Events(want))
	if err != nil {
		t.Fatal(err)
	}
	if cap(got.Samples) != 200 {
		t.Errorf("room for %d samples, want 200", cap(got.Samples))
	}
	for i := range want.Samples {
		s := &want.Samples[i]
		s.Series, s.Distributions, s.Trace = nil, nil, nil
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateNaNs()); diff != "" {
		t.Errorf("(-want +got):\n%.2000s", diff)
	}
}
