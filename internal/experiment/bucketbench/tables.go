package bucketbench

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"text/tabwriter"
)

// A Result is what one engine did: a row of the first table.
type Result struct {
	Name       string // of the row, such as "Custom:Docker" or "docker"
	Iterations int    // containers in each thread
	Runs       []Measured
}

// A Measured is a Result with one number of threads.
type Measured struct {
	Threads  int
	Rate     float64  // containers per second, of all threads together; NaN where it is not known
	Commands []Timing // none where only the rate is known
}

// A Timing is how long one command took.
type Timing struct {
	Command string    // as bucketbench calls it: Run, Pause, Resume, Stop, Delete or Wait
	Seconds []float64 // one for each time that it succeeded, in any order
	Errors  int       // how often it failed; those have no time
}

// Tables writes the tables of bucketbench: the rates by number of threads, and
// for each engine and number of threads every command's times in milliseconds.
// They differ from bucketbench's own in this: times have decimals, those of
// commands that failed are not in them, columns are the numbers of threads
// that there are, and what is not known is a dash. As there, the standard
// deviation is that of the values themselves, divided by their number.
func Tables(w io.Writer, results []Result) error {
	var b bytes.Buffer
	b.WriteString("\nSUMMARY TIMINGS/THREAD RATES\n\n")
	if err := writeRates(&b, results); err != nil {
		return err
	}
	b.WriteString("\nDETAILED COMMAND TIMINGS/STATISTICS\n")
	for _, r := range results {
		if err := writeTimings(&b, r); err != nil {
			return err
		}
	}
	// Cells that are empty are blanks until here.
	_, err := w.Write(blanks.ReplaceAll(b.Bytes(), nil))
	return err
}

var blanks = regexp.MustCompile(`(?m) +$`)

// tabs aligns as bucketbench does. Cells end with a tab.
func tabs(w io.Writer) *tabwriter.Writer {
	return tabwriter.NewWriter(w, 10, 4, 2, ' ', tabwriter.AlignRight)
}

func writeRates(w io.Writer, results []Result) error {
	columns := threads(results)
	t := tabs(w)
	fmt.Fprint(t, "\tIter/Thd\t")
	for _, n := range columns {
		fmt.Fprintf(t, "%d %s\t", n, plural(n))
	}
	fmt.Fprintln(t)
	for _, r := range results {
		fmt.Fprintf(t, "%s\t%d\t", r.Name, r.Iterations)
		for _, n := range columns {
			i := slices.IndexFunc(r.Runs, func(m Measured) bool { return m.Threads == n })
			if i >= 0 {
				fmt.Fprint(t, decimal(r.Runs[i].Rate))
			}
			fmt.Fprint(t, "\t")
		}
		fmt.Fprintln(t)
	}
	return t.Flush()
}

// threads lists every number of threads that there is.
func threads(results []Result) []int {
	var out []int
	for _, r := range results {
		for _, m := range r.Runs {
			out = append(out, m.Threads)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func plural(n int) string {
	if n == 1 {
		return "thrd"
	}
	return "thrds"
}

// writeTimings writes a table for each number of threads, all aligned.
func writeTimings(w io.Writer, r Result) error {
	t := tabs(w)
	for _, m := range r.Runs {
		if len(m.Commands) == 0 {
			continue
		}
		fmt.Fprintf(t, "%s:%d\tMin\tMax\tAvg\tMedian\tStddev\tErrors\t\n", r.Name, m.Threads)
		for _, c := range ordered(m.Commands) {
			fmt.Fprintf(t, "%s\t", c.Command)
			for _, v := range describe(c.Seconds) {
				fmt.Fprint(t, decimal(1000*v), "\t")
			}
			fmt.Fprintf(t, "%d\t\n", c.Errors)
		}
	}
	fmt.Fprintln(t)
	return t.Flush()
}

// ordered puts the commands into bucketbench's order, with Wait, which it
// measures and does not show, where it happens, and any others at the end.
func ordered(commands []Timing) []Timing {
	order := []string{Run, Pause, Resume, Wait, Stop, Delete}
	rank := func(t Timing) int {
		if i := slices.Index(order, t.Command); i >= 0 {
			return i
		}
		return len(order)
	}
	out := slices.Clone(commands)
	slices.SortStableFunc(out, func(a, b Timing) int { return rank(a) - rank(b) })
	return out
}

// describe returns least, greatest, mean, median and standard deviation; NaN
// where there is no value.
func describe(values []float64) []float64 {
	n := len(values)
	if n == 0 {
		nan := math.NaN()
		return []float64{nan, nan, nan, nan, nan}
	}
	v := slices.Sorted(slices.Values(values))
	mean, squares := 0.0, 0.0
	for _, x := range v {
		mean += x / float64(n)
	}
	for _, x := range v {
		squares += (x - mean) * (x - mean) / float64(n)
	}
	return []float64{v[0], v[n-1], mean, (v[(n-1)/2] + v[n/2]) / 2, math.Sqrt(squares)}
}

// decimal writes a number as bucketbench does, and a dash for none.
func decimal(v float64) string {
	if math.IsNaN(v) {
		return "-"
	}
	return fmt.Sprintf("%.2f", v)
}
