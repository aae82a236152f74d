package cli

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tare-bench/tare/internal/analysis/analysistest"
	"github.com/tare-bench/tare/internal/app"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/run"
)

// What takes long is seen from the beginning, and the time of preparations is none of
// the budget.
func TestProgress(t *testing.T) {
	for _, tty := range []bool{true, false} {
		var out strings.Builder
		clock := time.Unix(0, 0)
		p := &progress{
			out: &out, now: func() time.Time { return clock }, width: 80, tty: tty, began: clock, lastHeartbeat: clock,
			plan: bench.Plan{Budget: time.Minute, Cells: []bench.Cell{{Name: "native"}, {Name: "doc\x1bker"}}},
		}
		result := func(want string) {
			t.Helper()
			if got := out.String(); !strings.Contains(got, want) {
				t.Errorf("terminal %v: %q, want %q", tty, got, want)
			}
			out.Reset()
		}
		p.observe(run.Began{Trials: 100})
		p.observe(run.SetUpBegan{Cell: 0})
		if tty {
			result("preparing native (1 of 2)")
		} else {
			result("")
		}
		clock = clock.Add(heartbeat)
		p.observe(run.SetUpBegan{Cell: 1})
		result("preparing doc\\x1bker (2 of 2)")
		clock = clock.Add(heartbeat)
		p.observe(run.TrialEnded{Sample: bench.Sample{Outcome: bench.Unsupported}})
		clock = clock.Add(heartbeat)
		p.observe(run.TrialBegan{Trial: bench.Trial{Block: 0, Cell: 1}})
		result("≤ 30s left")
		p.observe(run.PartBegan{Cell: 1, Part: "cpu, memory"})
		if tty {
			result("≤ 30s left  doc\\x1bker: cpu, memory")
		} else {
			result("") // until the next heartbeat
			clock = clock.Add(heartbeat)
			p.observe(run.PartBegan{Cell: 1, Part: "disk"})
			result("block 1, disk, finishing the current block")
		}
		p.observe(run.Ended{})
	}
}

// The progress of an extension is that of its own blocks and time.
func TestProgressOfAnExtension(t *testing.T) {
	for _, tt := range []struct {
		budget time.Duration
		want   []string
	}{
		{0, []string{"  25 %  block 13, +2 of 2", "≤ 30s left"}},
		{150 * time.Second, []string{"  33 %  block 13, +2 ", "≤ 20s left"}},
	} {
		var out strings.Builder
		clock := time.Unix(0, 0)
		plan := bench.Plan{
			Budget: tt.budget, MaxBlocks: 13, Warmup: 1, Cells: []bench.Cell{{Name: "native"}, {Name: "docker"}},
		}
		p := &progress{
			out: &out, now: func() time.Time { return clock }, width: 80, tty: true, began: clock,
			lastHeartbeat: clock, plan: plan,
		}
		done := make([]bench.Sample, 24) // 11 blocks and the warm-up
		for i := range done {
			done[i].Elapsed = 5 * time.Second // two minutes in all
		}
		p.extends(app.Session{Header: bench.Header{Plan: plan}, Done: done, Look: 2, ExtendedAt: 24})
		p.observe(run.Began{Trials: 28, Done: 24})
		p.observe(run.TrialBegan{Trial: bench.Trial{Seq: 24, Block: 11}})
		clock = clock.Add(10 * time.Second)
		p.observe(run.TrialEnded{Sample: bench.Sample{Outcome: bench.OK}})
		p.observe(run.TrialBegan{Trial: bench.Trial{Seq: 25, Block: 12}})
		for _, want := range tt.want {
			if got := out.String(); !strings.Contains(got, want) {
				t.Errorf("with a budget of %v: %q, want %q", tt.budget, got, want)
			}
		}
	}
}

// screen is a terminal that understands what progress writes, and nothing else.
type screen struct {
	t     *testing.T
	lines []string
	y     int
}

func (s *screen) Write(text []byte) (int, error) {
	for rest := text; len(rest) > 0; {
		switch {
		case rest[0] == '\r':
			rest = rest[1:]
		case rest[0] == '\n':
			s.move(1)
			rest = rest[1:]
		case bytes.HasPrefix(rest, []byte("\x1b[")):
			end := bytes.IndexAny(rest, "ABKM")
			s.control(string(rest[2:end]), rest[end])
			rest = rest[end+1:]
		default:
			end := bytes.IndexAny(rest, "\r\n\x1b")
			if end < 0 {
				end = len(rest)
			}
			s.move(0)
			s.lines[s.y] = string(rest[:end])
			rest = rest[end:]
		}
	}
	return len(text), nil
}

// control obeys an escape sequence. That all of a line is erased is right where the cursor is at its
// beginning.
func (s *screen) control(number string, what byte) {
	n, err := strconv.Atoi(number)
	if err != nil && what != 'K' {
		s.t.Fatalf("the sequence %q%c has no number", number, what)
	}
	switch what {
	case 'A':
		s.move(-n)
	case 'B':
		s.move(n)
	case 'K':
		s.move(0)
		s.lines[s.y] = ""
	case 'M':
		s.lines = slices.Delete(s.lines, s.y, min(s.y+n, len(s.lines)))
	}
}

func (s *screen) move(by int) {
	if s.y += by; s.y < 0 {
		s.t.Fatalf("the cursor is %d lines above everything", -s.y)
	}
	for len(s.lines) <= s.y {
		s.lines = append(s.lines, "")
	}
}

// What earlier sittings measured is in the table as soon as a run goes on.
func TestPreviewOfResumed(t *testing.T) {
	r := analysistest.Run(analysistest.Shape{
		Seed: 4, Blocks: 8, Metrics: analysistest.Lifecycle()[:1], Cells: []analysistest.Cell{{Name: "a"}, {Name: "b", Factor: 9}},
	})
	v := newPreview(app.Session{Header: r.Header, Done: r.Samples}, false, 24)
	if got := strings.Join(v.lines(time.Unix(100, 0), 80), "\n"); !strings.Contains(got, "time to first instruction") {
		t.Errorf("it shows\n%s", got)
	}
}

// The table so far is replaced as a whole, and goes at the end. Messages that a signal has put
// between it and the bar stay.
func TestProgressWithTable(t *testing.T) {
	r := analysistest.Run(analysistest.Shape{
		Seed: 4, Blocks: 8, Metrics: analysistest.Lifecycle()[:1], Cells: []analysistest.Cell{{Name: "a"}, {Name: "b", Factor: 9}},
	})
	out := &screen{t: t, lines: []string{"before"}, y: 1}
	a := &invocation{stderr: out, env: func(string) string { return "" }}
	clock := time.Unix(0, 0)
	p := &progress{
		out: out, now: func() time.Time { return clock }, width: 80, tty: true, plan: r.Header.Plan,
		preview: newPreview(app.Session{Header: r.Header}, false, 24), told: a.told.Load,
	}
	tables := 0
	p.observe(run.Began{Trials: len(r.Samples)})
	for i, s := range r.Samples {
		p.observe(run.TrialBegan{Trial: s.Trial})
		shown := strings.Join(out.lines, "\n")
		if n := strings.Count(shown, "time to first instruction"); n > 1 || strings.Contains(shown, "slower") {
			t.Fatalf("before trial %d there are %d tables, or a difference is claimed:\n%s", i, n, shown)
		} else if n == 1 {
			tables++
		}
		if i == len(r.Samples)/2 {
			p.print("\r\x1b[K") // as printSignal does
			a.notice("finishing the current trial")
		}
		clock = clock.Add(previewEvery)
		p.observe(run.TrialEnded{Sample: s})
	}
	p.observe(run.Ended{})
	text := strings.TrimRight(strings.Join(out.lines, "\n"), "\n")
	if tables == 0 || text != "before\ntare: finishing the current trial" {
		t.Errorf("after %d trials with a table there stays\n%s", tables, text)
	}
}
