package lifecycle

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/text/plain"
)

// Forms implements bench.Former.
func (throughput) Forms() []bench.Form {
	return []bench.Form{{Name: "bucketbench", Write: writeTables}}
}

// writeTables writes the tables of bucketbench: the rates by number of threads, and
// for each engine and number of threads every command's times in milliseconds.
// They differ from bucketbench's own in this: times have decimals, those of
// commands that failed are not in them, columns are the numbers of threads
// that there are, and what is not known is a dash. As there, the standard
// deviation is that of the values themselves, divided by their number.
func writeTables(w io.Writer, run *bench.Run) error {
	rows, err := tableRows(run)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	b.WriteString("\nSUMMARY TIMINGS/THREAD RATES\n\n")
	if err := writeRates(&b, rows); err != nil {
		return err
	}
	b.WriteString("\nDETAILED COMMAND TIMINGS/STATISTICS\n")
	for _, r := range rows {
		if err := writeTimings(&b, r); err != nil {
			return err
		}
	}
	// Cells that are empty are blanks until here.
	_, err = w.Write(blanks.ReplaceAll(b.Bytes(), nil))
	return err
}

var blanks = regexp.MustCompile(`(?m) +$`)

// A tableRow is what one engine did: a row of the first table.
type tableRow struct {
	name       string
	iterations int              // containers in each lane
	lanes      map[int]*laneSum // by how many there are side by side
}

// A laneSum is what the trials of a cell have together: all their rates, and every
// single time of each command in seconds, or how often it failed.
type laneSum struct {
	rates  []float64
	times  map[string][]float64
	errors map[string]int
}

// tableRows makes rows of a run's cells. Controls are left out: bucketbench has none.
func tableRows(run *bench.Run) (all []*tableRow, err error) {
	for i, c := range run.Header.Plan.Cells {
		if c.Control {
			continue
		}
		lanes, err1 := strconv.Atoi(c.Params["concurrency"])
		iterations, err2 := strconv.Atoi(c.Params["iterations"])
		if err := errors.Join(err1, err2); err != nil {
			return nil, fmt.Errorf("cell %s: %w", c.FullName(), err)
		}
		name := rowName(&run.Header.Plan, c)
		at := slices.IndexFunc(all, func(r *tableRow) bool { return r.name == name && r.iterations == iterations })
		if at < 0 {
			at, all = len(all), append(all, &tableRow{name, iterations, map[int]*laneSum{}})
		}
		all[at].lanes[lanes] = sumOf(run, i)
	}
	return all, nil
}

// rowName is what a cell is called beside its number of lanes.
func rowName(p *bench.Plan, c bench.Cell) string {
	name := strings.Fields(c.Name) // one line, without tabs
	for _, l := range c.Levels {
		isCondition := slices.ContainsFunc(p.Factors, func(f bench.Factor) bool { return f.Condition && f.Name == l.Key })
		if isCondition && l.Key != "concurrency" {
			name = append(name, strings.Fields(l.Key+"="+l.Value)...)
		}
	}
	return plain.Line(strings.Join(name, " "))
}

func sumOf(run *bench.Run, cell int) *laneSum {
	sum := &laneSum{times: map[string][]float64{}, errors: map[string]int{}}
	rate := slices.IndexFunc(run.Header.Metrics, func(m bench.Metric) bool { return m.Name == Rate })
	for _, s := range run.Samples {
		if s.Trial.Cell != cell || s.Trial.Warmup() || s.Outcome != bench.OK {
			continue
		}
		if v, ok := s.Value(rate); ok {
			sum.rates = append(sum.rates, v)
		}
		sum.add(s.Series)
	}
	return sum
}

// add adds the times of one trial. Create and start together are one command; where
// they are not of the same containers, nothing is known.
func (l *laneSum) add(all []bench.Series) {
	var create []float64
	for _, s := range all {
		operation, failed := strings.CutPrefix(s.Metric, ErrorsAt)
		command := commandOf(operation)
		switch {
		case command == "":
		case failed:
			l.errors[command] += int(s.Values[0])
		case operation == Create:
			create = s.Values
		case operation != Start:
			l.times[command] = append(l.times[command], s.Values...)
		case len(create) == len(s.Values):
			for i, v := range s.Values {
				l.times[command] = append(l.times[command], create[i]+v)
			}
		}
	}
}

// commandOf is the command of bucketbench of which an operation is the whole or a part.
// It is empty where there is none.
func commandOf(operation string) string {
	switch operation {
	case Create, Start:
		return "run"
	case Kill:
		return "stop"
	case Remove:
		return "delete"
	case Pause, Resume, Stop, Wait:
		return operation
	}
	return ""
}

// tabs aligns as bucketbench does. Cells end with a tab.
func tabs(w io.Writer) *tabwriter.Writer {
	return tabwriter.NewWriter(w, 10, 4, 2, ' ', tabwriter.AlignRight)
}

func writeRates(w io.Writer, rows []*tableRow) error {
	lanes := map[int]bool{}
	for _, r := range rows {
		for n := range r.lanes {
			lanes[n] = true
		}
	}
	columns := slices.Sorted(maps.Keys(lanes))
	t := tabs(w)
	fmt.Fprint(t, "\tIter/Thd\t")
	for _, n := range columns {
		unit := "thrds"
		if n == 1 {
			unit = "thrd"
		}
		fmt.Fprintf(t, "%d %s\t", n, unit)
	}
	fmt.Fprintln(t)
	for _, r := range rows {
		fmt.Fprintf(t, "%s\t%d\t", r.name, r.iterations)
		for _, n := range columns {
			if sum := r.lanes[n]; sum != nil {
				fmt.Fprint(t, decimal(median(sum.rates)))
			}
			fmt.Fprint(t, "\t")
		}
		fmt.Fprintln(t)
	}
	return t.Flush()
}

// writeTimings writes a table for each number of threads, all aligned. Its commands are
// in bucketbench's order, with wait, which it measures and does not show, where it happens.
func writeTimings(w io.Writer, r *tableRow) error {
	t := tabs(w)
	for _, n := range slices.Sorted(maps.Keys(r.lanes)) {
		sum := r.lanes[n]
		if len(sum.times)+len(sum.errors) == 0 {
			continue
		}
		fmt.Fprintf(t, "%s:%d\tMin\tMax\tAvg\tMedian\tStddev\tErrors\t\n", r.name, n)
		for _, command := range []string{"run", "pause", "resume", "wait", "stop", "delete"} {
			times, errs := sum.times[command], sum.errors[command]
			if len(times)+errs == 0 {
				continue
			}
			fmt.Fprintf(t, "%s\t", command)
			for _, v := range statistics(times) {
				fmt.Fprint(t, decimal(1000*v), "\t")
			}
			fmt.Fprintf(t, "%d\t\n", errs)
		}
	}
	fmt.Fprintln(t)
	return t.Flush()
}

// statistics returns least, greatest, mean, median and standard deviation; NaN where
// there is no value.
func statistics(values []float64) [5]float64 {
	n := len(values)
	if n == 0 {
		nan := math.NaN()
		return [5]float64{nan, nan, nan, nan, nan}
	}
	mean, squares := 0.0, 0.0
	for _, x := range values {
		mean += x / float64(n)
	}
	for _, x := range values {
		squares += (x - mean) * (x - mean) / float64(n)
	}
	return [5]float64{slices.Min(values), slices.Max(values), mean, median(values), math.Sqrt(squares)}
}

// median is NaN where there is no value.
func median(values []float64) float64 {
	v, n := slices.Sorted(slices.Values(values)), len(values)
	if n == 0 {
		return math.NaN()
	}
	return (v[(n-1)/2] + v[n/2]) / 2
}

// decimal writes a number as bucketbench does, and a dash for none.
func decimal(v float64) string {
	if math.IsNaN(v) {
		return "-"
	}
	return fmt.Sprintf("%.2f", v)
}
