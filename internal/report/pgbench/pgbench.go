// Package pgbench writes a run of the workload postgres as pgbench's users know it: the summary that
// pgbench prints, for each cell.
package pgbench

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/text/plain"
	"github.com/tare-bench/tare/internal/text/unit"
)

// Write writes a summary for each cell and part. Numbers are medians of the trials that succeeded;
// what is not known has no line. Controls are left out: pgbench has none.
func Write(w io.Writer, run *bench.Run) error {
	loads := loadsOf(run.Header.Metrics)
	if len(loads) == 0 {
		return errors.New("no metric of the run is a rate of transactions")
	}
	first := true
	for i := range run.Header.Plan.Cells {
		for _, l := range loads {
			s := summary{run: run, cell: i, load: l}
			if run.Header.Plan.Cells[i].Control || s.trials() == 0 || s.isOfSteps(loads) {
				continue
			}
			if !first {
				fmt.Fprintln(w)
			}
			first = false
			if _, err := io.WriteString(w, s.String()); err != nil {
				return err
			}
		}
	}
	return nil
}

// A load is one rate that a trial measures: of a part, or of one step of its sweep.
type load struct {
	prefix string // of the names of its metrics, such as "read."
	step   string // at their end, such as ".c8"; empty without a sweep
}

var rate = regexp.MustCompile(`^([a-z0-9]+\.)?rate(\.c[0-9]+)?$`)

func loadsOf(metrics []bench.Metric) (all []load) {
	for _, m := range metrics {
		if found := rate.FindStringSubmatch(m.Name); found != nil && m.Unit == "1/s" {
			all = append(all, load{found[1], found[2]})
		}
	}
	return all
}

// A summary is what one cell says about a load.
type summary struct {
	run  *bench.Run
	cell int
	load
}

// values are those of one metric in the trials that count.
func (s *summary) values(metric string) (all []float64) {
	name := s.prefix + metric + s.step
	i := slices.IndexFunc(s.run.Header.Metrics, func(m bench.Metric) bool { return m.Name == name })
	for j := range s.run.Samples {
		sample := &s.run.Samples[j]
		if sample.Trial.Cell != s.cell || sample.Trial.Warmup() || sample.Outcome != bench.OK {
			continue
		}
		if v, ok := sample.Value(i); ok {
			all = append(all, v)
		}
	}
	return all
}

func (s *summary) trials() int { return len(s.values("rate")) }

// isOfSteps reports whether the rate is the highest of a sweep: pgbench prints one result for each number of clients.
func (s *summary) isOfSteps(loads []load) bool {
	return s.step == "" && s.option("sweep") != "" &&
		slices.ContainsFunc(loads, func(l load) bool { return l.prefix == s.prefix && l.step != "" })
}

// median is that of one metric; NaN without values.
func (s *summary) median(metric string) float64 { return median(s.values(metric)) }

func median(values []float64) float64 {
	slices.Sort(values)
	n := len(values)
	if n == 0 {
		return math.NaN()
	}
	return (values[(n-1)/2] + values[n/2]) / 2
}

// String is pgbench's summary, below a line that says what it is of.
func (s *summary) String() string {
	var b strings.Builder
	line := func(known bool, format string, args ...any) {
		if known {
			fmt.Fprintf(&b, format+"\n", args...)
		}
	}
	tps, ended, failed := s.median("rate"), s.median("transactions"), s.median("failed")
	connect := nonZero(s.median("connect.mean"))
	fmt.Fprintf(&b, "%s: median of %s\n", s.title(), unit.FormatCount(s.trials(), "trial"))
	line(s.script() != "", "transaction type: %s", transactionType(s.script()))
	line(s.option("scale") != "", "scaling factor: %s", s.option("scale"))
	line(s.mode() != "", "query mode: %s", s.mode())
	line(s.clients() != "", "number of clients: %s", s.clients())
	line(s.duration() > 0, "duration: %s s", strconv.FormatFloat(s.duration().Seconds(), 'f', -1, 64))
	line(isKnown(ended), "number of transactions actually processed: %.0f", ended)
	line(isKnown(failed) && ended+failed > 0, "number of failed transactions: %.0f (%.3f%%)", failed,
		100*failed/(ended+failed))
	line(isKnown(s.mean()), "latency average = %.3f ms", 1e3*s.mean())
	line(isKnown(s.median("time.stddev")), "latency stddev = %.3f ms", 1e3*s.median("time.stddev"))
	if s.option("connect") == "each" {
		line(connect > 0, "average connection time = %.3f ms", 1e3*connect)
		line(true, "tps = %f (including reconnection times)", tps)
		return b.String()
	}
	// Only imported runs have it: tare's own clients do not measure it.
	all := nonZero(s.median("connect.all"))
	line(all > 0, "initial connection time = %.3f ms", 1e3*all)
	line(true, "tps = %f (without initial connection time)", tps)
	return b.String()
}

func isKnown(v float64) bool { return !math.IsNaN(v) }

// nonZero is 0 for what is unknown.
func nonZero(v float64) float64 {
	if math.IsNaN(v) {
		return 0
	}
	return v
}

// title names the cell and the part.
func (s *summary) title() string {
	c := &s.run.Header.Plan.Cells[s.cell]
	title := c.FullName()
	if part := strings.TrimSuffix(s.prefix, "."); part != "" && part != scripted {
		title += " " + part
	}
	return plain.Line(title)
}

// scripted is the part that runs any script.
const scripted = "load"

// option is an option of the cell, a level, or what all cells have in common.
func (s *summary) option(name string) string {
	c := &s.run.Header.Plan.Cells[s.cell]
	value := c.Params[name]
	for _, l := range c.Levels {
		if l.Key == name {
			value = cmp.Or(value, l.Value)
		}
	}
	for _, e := range s.run.Header.Engines {
		for _, f := range e.Facts {
			if e.Name == c.Engine && f.Key == name {
				value = cmp.Or(value, f.Value)
			}
		}
	}
	return plain.Line(value)
}

// script is the transaction of the part, by pgbench's name.
func (s *summary) script() string {
	switch part := strings.TrimSuffix(s.prefix, "."); {
	case strings.HasPrefix(part, "read"):
		return "select-only"
	case strings.HasPrefix(part, "write"):
		return "tpcb-like"
	}
	return s.option("script")
}

// transactionType is a script as pgbench prints it.
func transactionType(script string) string {
	switch script {
	case "select-only":
		return "<builtin: select only>"
	case "tpcb-like":
		return "<builtin: TPC-B (sort of)>"
	case "simple-update":
		return "<builtin: simple update>"
	}
	return script
}

// mode is how statements were sent. tare prepares all of them.
func (s *summary) mode() string {
	if s.run.Header.MeasuredBy == "" {
		return "prepared"
	}
	return s.option("queries")
}

func (s *summary) clients() string {
	switch part := strings.TrimSuffix(s.prefix, "."); {
	case s.step != "":
		return strings.TrimPrefix(s.step, ".c")
	case part == "read1", part == "write1":
		return "1"
	}
	return s.option("clients")
}

// duration is the measured time of the part; of imported results that of the tests.
func (s *summary) duration() time.Duration {
	if s.run.Header.MeasuredBy == "" {
		name := "time"
		if strings.HasPrefix(s.prefix, "write") {
			name = "write_time"
		}
		d, _ := time.ParseDuration(s.option(name)) // 0 is unknown
		return d
	}
	var all []float64
	for i := range s.run.Samples {
		if one := &s.run.Samples[i]; one.Trial.Cell == s.cell && one.Outcome == bench.OK {
			all = append(all, float64(one.Elapsed))
		}
	}
	return time.Duration(nonZero(median(all))).Round(time.Millisecond)
}

// mean is the mean time of a transaction. Where it was not measured, and clients do not wait for the
// moment when a transaction is due, it follows from their number and the rate, as in pgbench.
func (s *summary) mean() float64 {
	if v := s.median("time.mean"); isKnown(v) {
		return v
	}
	n, err := strconv.Atoi(s.clients())
	open := s.option("rate") != "" && s.option("rate") != "0" && s.option("rate") != "none"
	if tps := s.median("rate"); err == nil && tps > 0 && !open && s.run.Header.MeasuredBy == "" {
		return float64(n) / tps
	}
	return math.NaN()
}
