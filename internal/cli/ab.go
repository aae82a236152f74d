package cli

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tare-bench/tare/internal/app"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/load"
	"github.com/tare-bench/tare/internal/report/apachebench"
	"github.com/tare-bench/tare/internal/text/plain"
	"github.com/tare-bench/tare/internal/workload/http"
)

// showBlocks prints ApacheBench's block of each cell of a run.
func (a *invocation) showBlocks(r *bench.Run) error {
	if w := r.Header.Plan.Workload; w != http.Name {
		return &usageError{
			fmt.Errorf("run %s has the workload %s; --as ab needs http", r.Header.ID, w),
			"'tare run http' makes such a run",
		}
	}
	if n := app.FailedTrials(r); n > 0 {
		a.notice("failed trials, which are left out: %d; 'tare show %s --trials' says why they failed", n, r.Header.ID)
	}
	shown := 0
	for i, c := range r.Header.Plan.Cells {
		if c.Control {
			continue
		}
		block, err := blockOf(r, i)
		if err != nil {
			return fmt.Errorf("run %s: cell %s: %w", r.Header.ID, c.FullName(), err)
		}
		if block == nil {
			continue
		}
		if shown++; shown > 1 {
			fmt.Fprint(a.stdout, "\n\n")
		}
		if err := block.Write(a.stdout); err != nil {
			return err
		}
	}
	if shown == 0 {
		return fmt.Errorf("run %s: no trial succeeded", r.Header.ID)
	}
	return nil
}

// blockOf joins the trials of a cell: what is counted adds up, and all times are
// in one distribution. It is nil if none succeeded.
func blockOf(r *bench.Run, cell int) (*apachebench.Block, error) {
	c := &r.Header.Plan.Cells[cell]
	b := &apachebench.Block{
		Software: softwareOf(c), Hostname: plain.Line(strings.Join(strings.Fields(c.FullName()), " ")),
		Path: plain.Line(cmp.Or(c.Params["path"], "/document")), Concurrency: plain.Line(c.Params["connections"]), KeepAlive: c.Params["keepalive"] == "yes",
		Length: math.NaN(),
	}
	if port := c.Params["port"]; port != "0" {
		b.Port = plain.Line(port)
	}
	trials := 0
	for i := range r.Samples {
		s := &r.Samples[i]
		if s.Trial.Cell != cell || s.Trial.Warmup() || s.Outcome != bench.OK {
			continue
		}
		trials++
		addCounts(b, func(metric string) float64 { return valueOf(r, s, metric) })
		b.Timely += timely(r, s)
		if length, ok := s.Value(indexOf(r, http.Document)); ok {
			b.Length = length
		}
		if err := addTimes(b, s); err != nil {
			return nil, err
		}
	}
	if trials == 0 {
		return nil, nil
	}
	return b, nil
}

// softwareOf is what the server was, as far as the plan says.
func softwareOf(c *bench.Cell) string {
	program := c.Params["server"]
	if program == "" && c.Spec.Image == "" {
		program = "tare"
	}
	if c.Spec.Image == "" {
		return plain.Line(program)
	}
	return strings.TrimSpace(plain.Line(program + " (" + c.Spec.Image + ")"))
}

// valueOf is a metric of a sample; 0 if it has none.
func valueOf(r *bench.Run, s *bench.Sample, metric string) float64 {
	v, _ := s.Value(indexOf(r, metric))
	return v
}

func indexOf(r *bench.Run, metric string) int {
	return slices.IndexFunc(r.Header.Metrics, func(m bench.Metric) bool { return m.Name == metric })
}

func addCounts(b *apachebench.Block, value func(metric string) float64) {
	b.Elapsed += time.Duration(value(http.Elapsed) * float64(time.Second))
	b.Failed += value(http.Failed)
	b.Connect += value(http.Failed + ".connect")
	b.Receive += value(http.Failed + ".read")
	b.WrongLength += value(http.Failed + ".length")
	b.Exceptions += value(http.Failed + ".timeout")
	b.Status += value(http.Failed + ".status")
	b.Transferred += value(http.Bytes)
}

// timely is how many good answers were whole before the end of the time. Only tare's
// own client, told a time, counts others too.
func timely(r *bench.Run, s *bench.Sample) float64 {
	good := valueOf(r, s, http.Requests) - valueOf(r, s, http.Failed)
	if p := r.Header.Plan.Cells[s.Trial.Cell].Params; p["tool"] != "" || p["requests"] != "0" {
		return good
	}
	return min(good, math.Round(valueOf(r, s, http.Rate)*valueOf(r, s, http.Elapsed)))
}

func addTimes(b *apachebench.Block, s *bench.Sample) error {
	processing := "http.processing"
	if b.KeepAlive {
		processing = http.Time // nothing is done for a request before it is sent
	}
	for _, t := range []struct {
		metric string
		into   **load.Histogram
	}{{"http.connect", &b.Connecting}, {processing, &b.Processing}, {"http.first_byte", &b.Waiting}, {http.Time, &b.Total}} {
		i := slices.IndexFunc(s.Distributions, func(d bench.Distribution) bool { return d.Metric == t.metric })
		if i < 0 {
			continue
		}
		h, err := load.Distribution(s.Distributions[i].HDR).Histogram()
		if err != nil {
			return fmt.Errorf("%s: %w", strconv.Quote(t.metric), err)
		}
		if *t.into == nil {
			*t.into = load.NewHistogram()
		}
		(*t.into).Merge(h)
	}
	return nil
}
