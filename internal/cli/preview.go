package cli

import (
	"slices"
	"strings"
	"time"

	"github.com/tare-bench/tare/internal/analysis"
	"github.com/tare-bench/tare/internal/app"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/report"
	"github.com/tare-bench/tare/internal/run"
)

// previewEvery is how often estimates are made anew while a run goes on, at most.
const previewEvery = 2 * time.Second

// A preview shows on a terminal what is known so far, between two blocks: nothing is
// drawn, and nothing computed, while something is timed. It claims nothing, because nobody
// counts how often it is looked at.
type preview struct {
	soFar
	color  bool
	height int // of the terminal, in lines
	last   time.Time
}

func newPreview(s app.Session, color bool, height int) *preview {
	return &preview{soFar: newSoFar(s), color: color, height: height}
}

// soFar is what has been measured of a run: the values of the metrics that decide.
type soFar struct{ run bench.Run }

// newSoFar knows what earlier sittings measured.
func newSoFar(s app.Session) soFar {
	h := s.Header
	h.Metrics = slices.Clone(h.Metrics)
	for i := range h.Metrics {
		if h.Plan.Role(h.Metrics[i]) != bench.Primary {
			h.Metrics[i].Role = bench.State
		}
	}
	v := soFar{bench.Run{Header: h}}
	for _, done := range s.Done {
		v.add(done)
	}
	return v
}

// add takes the next sample, and keeps of it what comparisons need.
func (v *soFar) add(s bench.Sample) {
	v.run.Samples = append(v.run.Samples, bench.Sample{
		Trial: s.Trial, Began: s.Began, Elapsed: s.Elapsed, Outcome: s.Outcome, Operation: s.Operation, Reason: s.Reason,
		Values: slices.Clone(s.Values),
	})
}

// lines is the table so far; none if it is too early, too soon after the last one, or if
// the terminal has no room for it.
func (v *preview) lines(now time.Time, width int) []string {
	if now.Sub(v.last) < previewEvery {
		return nil
	}
	v.last = now
	r, err := analysis.Analyze(&v.run, analysis.Options{Running: true})
	if err != nil || r.Blocks == 0 {
		return nil
	}
	var b strings.Builder
	err = app.WriteFindings(&b, report.New(r, nil), app.Style{Color: v.color, Width: width - 1})
	lines := strings.Split(strings.TrimRight(b.String(), "\n"), "\n")
	if err != nil || len(lines)+2 > v.height {
		return nil
	}
	return lines
}

// observePreview follows the run, and redraws the table where a block begins.
func (p *progress) observePreview(e run.Event) {
	if p.preview == nil {
		return
	}
	switch e := e.(type) {
	case run.TrialBegan:
		if e.Trial.Block == p.block || e.Trial.Warmup() {
			return
		}
		if lines := p.preview.lines(p.now(), p.width); lines != nil {
			p.end()
			p.above = p.told()
			for _, line := range lines {
				p.print(line + "\n")
			}
			p.drawn, p.shown = len(lines), true
		}
	case run.TrialEnded:
		p.preview.add(e.Sample)
	}
}
