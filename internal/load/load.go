// Package load defines how loads report: the format of the results of work that a process
// did inside or outside of a container. The loads themselves are the packages below it.
// The agent runs them, and workloads read their reports.
//
// A load takes options, KEY=VALUE each, and prints one line:
//
//	tare-load v1 {"load":"cpu","values":{"cpu.single":1234.5}}
//
// In code, a load is a name and a function, listed in loads.go of package agent. It reads all
// of its options before it does anything:
//
//	const Name = "chase"
//
//	func Run(a *load.Args) (*load.Report, error) {
//		o := optionsOf(a) // a.Duration("time", …), a.Threads("threads", "1")
//		if err := a.Err(); err != nil {
//			return nil, err
//		}
//		r := load.NewReport(Name)
//		…
//		r.Values["chase.rate"] = rate
//		return r, nil
//	}
//
// The rule for its options is a function, too. The workload's Params check each option with
// it, before a run, by load.Valid("time", value, chase.Valid):
//
//	func Valid(a *load.Args) error {
//		optionsOf(a)
//		return a.Err()
//	}
package load

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/tare-bench/tare/internal/load/turn"
)

// ErrReport is wrapped by Parse's error.
var ErrReport = errors.New("not the report of a load")

// MaxReport is the largest length of a report's line, in bytes.
const MaxReport = 4 << 20

const prefix = "tare-load v1 "

// A Report has the results of one load.
type Report struct {
	Load string `json:"load"`
	// Values are numbers by metric, in its base unit; never infinite or NaN.
	Values map[string]float64 `json:"values,omitempty"`
	// Distributions are by metric, of values in nanoseconds.
	Distributions map[string]Distribution `json:"distributions,omitempty"`
	// Slices say, by metric, how fast the load was in each slice of a process that takes turns, in any
	// unit: how far they differ tells how much noise is within a trial.
	Slices map[string][]float64 `json:"slices,omitempty"`
	// Series are values in order of time, such as the rate in each second: at most MaxSeries of a
	// metric, none of which is infinite or NaN.
	Series map[string][]float64 `json:"series,omitempty"`
	// Measured is the time, in seconds, in which the load measured; 0 = unknown. What it does before,
	// such as making data, is not in it.
	Measured float64 `json:"measured,omitempty"`
	// Turns is what the turns of the load have cost. The host fills it in.
	Turns turn.Cost `json:"-"`
	// Facts say how the load worked, such as "io": "io_uring".
	Facts map[string]string `json:"facts,omitempty"`
	// Notes are stable codes that qualify the values: see bench's.
	Notes []string `json:"notes,omitempty"`
	// Then is called once the report is told, before the next load begins; nil = nothing is left to do.
	Then func() `json:"-"`
}

// NewReport returns an empty report of the named load.
func NewReport(name string) *Report {
	return &Report{
		Load: name, Values: map[string]float64{}, Distributions: map[string]Distribution{}, Facts: map[string]string{},
	}
}

// AddSlices adds the speeds in further slices, if there are any. They are rounded to what their noise
// leaves of them.
func (r *Report) AddSlices(metric string, speeds []float64) {
	if len(speeds) == 0 {
		return
	}
	if r.Slices == nil {
		r.Slices = map[string][]float64{}
	}
	for _, v := range speeds {
		if len(r.Slices[metric]) < maxSlices {
			r.Slices[metric] = append(r.Slices[metric], rounded(v))
		}
	}
}

// AddToSeries adds a value to a series that has room for it, rounded to what its noise leaves of it.
func (r *Report) AddToSeries(metric string, v float64) {
	if r.Series == nil {
		r.Series = map[string][]float64{}
	}
	if len(r.Series[metric]) < MaxSeries {
		r.Series[metric] = append(r.Series[metric], rounded(v))
	}
}

// rounded keeps five digits.
func rounded(v float64) float64 {
	v, _ = strconv.ParseFloat(strconv.FormatFloat(v, 'g', 5, 64), 64) // it was formatted here
	return v
}

// MaxSeries is the number of values of a series: an hour has as many seconds.
const MaxSeries = 3600

// maxSlices is the number of slices of a metric that a report has.
const maxSlices = 1000

// Line returns the report as a line of output, with its newline.
func (r *Report) Line() ([]byte, error) {
	for _, name := range slices.Sorted(maps.Keys(r.Values)) {
		if v := r.Values[name]; math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, fmt.Errorf("load %s: %s is %v", r.Load, name, v)
		}
	}
	b, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("load %s: %w", r.Load, err)
	}
	line := append(append([]byte(prefix), b...), '\n')
	if len(line) > MaxReport {
		return nil, fmt.Errorf(
			"load %s: the report has %d bytes, more than the limit of %d", r.Load, len(line), MaxReport)
	}
	return line, nil
}

// Parse reads the output of one or more loads, which is only their lines. It does not
// trust the text, which comes from a container.
func Parse(output []byte) ([]*Report, error) {
	var all []*Report
	for line := range bytes.Lines(output) {
		r, err := parseLine(line)
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, nil
}

func parseLine(line []byte) (*Report, error) {
	body, ok := bytes.CutPrefix(line, []byte(prefix))
	if !ok || !bytes.HasSuffix(line, []byte("\n")) || len(line) > MaxReport {
		return nil, fmt.Errorf("%w: %.80q", ErrReport, line)
	}
	r := NewReport("")
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(r); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrReport, err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%w: text follows it: %.80q", ErrReport, line)
	}
	if math.IsNaN(r.Measured) || r.Measured < 0 {
		return nil, fmt.Errorf("%w: it measured for %v s", ErrReport, r.Measured)
	}
	for name, values := range r.Series {
		if len(values) > MaxSeries {
			return nil, fmt.Errorf("%w: series %.80q has %d values", ErrReport, name, len(values))
		}
	}
	for name, d := range r.Distributions {
		if _, err := d.Histogram(); err != nil {
			return nil, fmt.Errorf("%w: distribution %.80q: %w", ErrReport, name, err)
		}
	}
	return r, nil
}
