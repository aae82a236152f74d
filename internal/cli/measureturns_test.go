package cli_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/tabwriter"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/report"
)

// TestMeasureTurns compares whole trials with turns: the same plan is run in both ways, by turns, with the same
// seed and the same time. scripts/measure-turns says what it is told:
//
//	TARE_MEASURE       the arguments of 'tare run', such as "quick -e native,docker --budget 2m"
//	TARE_MEASURE_RUNS  number of runs of each kind
//	TARE_MEASURE_DIR   where the report of each run is left, as JSON, with what the run told, and the store
//	TARE_MEASURE_SAME  yes: all cells are the same thing, and only runs with turns are made
//
// Without TARE_MEASURE it makes one small run of each kind.
func TestMeasureTurns(t *testing.T) {
	t.Parallel() // in the short form nothing is measured but that it works
	m := measurement{
		args: strings.Fields(os.Getenv("TARE_MEASURE")), dir: os.Getenv("TARE_MEASURE_DIR"), modes: []string{"off", "auto"},
	}
	runs, err := strconv.Atoi(cmp.Or(os.Getenv("TARE_MEASURE_RUNS"), "1"))
	if err != nil || runs < 1 {
		t.Fatalf("TARE_MEASURE_RUNS: %v; want the number of runs of each kind", err)
	}
	small := len(m.args) == 0
	if small {
		engines := strings.Join(usable(t, "native", "floor"), ",")
		m.args = strings.Fields("cpu --engine " + engines + " --param time=100ms --param kernels=prime " +
			"--blocks 6 --warmup 0 --precision off --washout off")
	}
	if m.dir == "" {
		m.dir = t.TempDir()
	}
	if os.Getenv("TARE_MEASURE_SAME") == "yes" {
		m.modes = []string{"auto"}
	}
	for i := range runs {
		slices.Reverse(m.modes) // whatever the machine does, both kinds meet it
		for _, mode := range m.modes {
			m.run(t, i, mode)
		}
	}
	var table strings.Builder
	m.write(&table)
	t.Logf("tare run %s, %d runs of each kind\n%s", strings.Join(m.args, " "), runs, table.String())
	if small && (m.comparisons == 0 || !strings.Contains(table.String(), "cpu.single") || len(m.shares) == 0) {
		t.Errorf("the table of a small run lacks something:\n%s", table.String())
	}
}

// A measurement is what the runs have shown so far.
type measurement struct {
	args  []string
	dir   string
	modes []string

	keys   []string                        // of widths, in the order of the reports
	widths map[string]map[string][]float64 // by metric and cell, and by mode: half-widths of ratios
	shares map[string][]float64            // by metric and cell: the share of starts
	levels map[string][]report.Level       // by metric and cell

	// Controls and, if all cells are the same, all others: comparisons of a thing with itself.
	comparisons, alarms, claims int
}

// run makes one run, and reads its report.
func (m *measurement) run(t *testing.T, i int, mode string) {
	t.Helper()
	name := filepath.Join(m.dir, fmt.Sprintf("%03d-%s", i, mode))
	args := slices.Concat([]string{"run"}, m.args, []string{
		"--interleave", mode, "--seed", strconv.Itoa(i + 1), "--json", "--verbose",
		"--store", filepath.Join(m.dir, "tare.db"),
	})
	cmd := exec.CommandContext(t.Context(), "tare", args...)
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 3 { // some trials failed: their run counts
		t.Logf("run %d with --interleave %s: some trials failed", i, mode)
		err = nil
	}
	if err == nil {
		err = errors.Join(os.WriteFile(name+".json", out, 0o600), os.WriteFile(name+".log", []byte(said.String()), 0o600))
	}
	if err != nil {
		t.Fatalf("tare %s: %v\n%s", strings.Join(args, " "), err, said.String())
	}
	var d report.Document
	if err := json.Unmarshal(out, &d); err != nil {
		t.Fatalf("%s.json: %v", name, err)
	}
	m.add(&d, mode)
}

func (m *measurement) add(d *report.Document, mode string) {
	if m.widths == nil {
		m.widths, m.shares = map[string]map[string][]float64{}, map[string][]float64{}
		m.levels = map[string][]report.Level{}
	}
	for _, metric := range d.Metrics {
		for _, c := range metric.Conditions {
			if metric.Role == bench.Primary {
				m.addSame(c.Noise)
			}
			for _, r := range c.Rows {
				if len(m.modes) == 1 && metric.Role == bench.Primary {
					m.addSame(r.Effect)
				}
				if e := r.Effect; e != nil && e.Scale == bench.Ratio && e.Low != nil && e.High != nil && !e.Interrupted {
					m.addWidth(key(metric.Name, c.Condition, r.Cell), mode, (*e.High-*e.Low)/2)
				}
			}
		}
	}
	for _, l := range d.Levels {
		k := key(l.Metric, l.Condition, l.Cell)
		m.shares[k], m.levels[k] = append(m.shares[k], l.StartShare), append(m.levels[k], l)
	}
}

func key(metric, condition, cell string) string {
	return strings.TrimSuffix(metric+"\t"+cell+" "+condition, " ")
}

func (m *measurement) addWidth(key, mode string, width float64) {
	if m.widths[key] == nil {
		m.keys = append(m.keys, key)
		m.widths[key] = map[string][]float64{}
	}
	m.widths[key][mode] = append(m.widths[key][mode], width)
}

// addSame counts a comparison of a thing with itself.
func (m *measurement) addSame(e *report.Effect) {
	if e == nil || e.P == nil {
		return
	}
	m.comparisons++
	if *e.P < 0.05 {
		m.alarms++
	}
	if slices.Contains([]string{"worse", "better", "different"}, e.Verdict) {
		m.claims++
	}
}

// write writes the tables.
func (m *measurement) write(to io.Writer) {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "metric\tcell\twhole trials\tturns\tnarrower\t\n")
	for _, k := range m.keys {
		off, auto := medianOf(m.widths[k]["off"]), medianOf(m.widths[k]["auto"])
		fmt.Fprintf(w, "%s\t±%.2f %%\t±%.2f %%\t%.2f×\t\n", k, 100*off, 100*auto, off/auto)
	}
	fmt.Fprint(w, "\t\t\t\t\t\nnoise in turns\tcell\tstarts\trounds\tslices\tratio of a block\tof it from starts\t\n")
	for _, k := range m.keys {
		if all := m.levels[k]; len(all) > 0 {
			of := func(value func(report.Level) float64) float64 {
				var values []float64
				for _, l := range all {
					values = append(values, value(l))
				}
				return 100 * medianOf(values)
			}
			fmt.Fprintf(w, "%s\t%.2f %%\t%.2f %%\t%.2f %%\t%.2f %%\t%.0f %%\t\n", k,
				of(func(l report.Level) float64 { return l.Start }), of(func(l report.Level) float64 { return l.Round }),
				of(func(l report.Level) float64 { return l.Slice }), of(func(l report.Level) float64 { return l.Pair }),
				of(func(l report.Level) float64 { return l.StartShare }))
		}
	}
	_ = w.Flush() // to memory
	fmt.Fprintf(to, "\n%d comparisons of a thing with itself: p < 5 %% in %d; claimed after all adjustments: %d\n",
		m.comparisons, m.alarms, m.claims)
}

// medianOf is the median; NaN without values.
func medianOf(all []float64) float64 {
	if len(all) == 0 {
		return math.NaN()
	}
	all = slices.Sorted(slices.Values(all))
	return (all[(len(all)-1)/2] + all[len(all)/2]) / 2
}
