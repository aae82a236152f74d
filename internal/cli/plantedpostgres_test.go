package cli_test

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tare-bench/tare/internal/report"
)

// A postgresPlant is something planted into cells of PostgreSQL, and what a run has to find.
type postgresPlant struct {
	engine   string                                                 // that must be here
	budget   time.Duration                                          // 0 = that of a short run
	params   string                                                 // of all cells, as YAML
	primary  string                                                 // metrics, separated by commas
	cells    []string                                               // as YAML; the first one is the baseline, and is named usual
	scripts  []string                                               // pgbench's, which cells name as 0.sql, 1.sql and so on
	dirs     func(t *testing.T, below string) (usual, other string) // that cells name as USUAL and OTHER; nil = none
	findings []finding
	warning  string // of the last cell, by its code; "" = any or none
}

// A finding is what a run has to say about a metric of a cell beside the baseline.
type finding struct {
	cell, metric, verdict string     // verdict "" = it is not found to differ
	ratio                 [2]float64 // that it lies between; 0, 0 = any
	shift                 [2]float64 // in the metric's unit, a part of which the interval covers; 0, 0 = any
	beside                string     // a cell; "" = none
	apart                 [2]float64 // what the ratio, divided by that of beside, lies between
	reason                string     // that is named for it; "" = any or none
}

// blocks are how many a run needs to find it. With fewer than 10 no counter is a reason: each has to stand out among all
// of them. What has to be found in several comparisons needs more.
func (p *postgresPlant) blocks() int {
	if len(p.findings) > 1 {
		return 14
	}
	return 10
}

func postgresPlants() map[string]postgresPlant {
	anyLess, anyMore := [2]float64{0, 0.95}, [2]float64{1.1, math.Inf(1)}
	return map[string]postgresPlant{
		"syncs that are left out": {
			engine: "native", params: "parts: [read1, read, write1], time: 200ms, write_time: 400ms",
			primary: "read1.time.p50,read.rate,write1.rate",
			cells: []string{
				"{name: usual, engine: native}", "{name: no fsync, engine: native, params: {fsync: off}}",
				"{name: no wait, engine: native, params: {commit: off}}",
			},
			findings: []finding{
				{cell: "no fsync", metric: "write1.rate", verdict: "better", ratio: anyMore, reason: "host.disk_flushes"},
				{
					cell: "no wait", metric: "write1.rate", verdict: "better", ratio: anyMore, reason: "write1.server.syncs",
					beside: "no fsync", apart: [2]float64{0.8, 1.2}, // nothing waits for the disk in either
				},
				{cell: "no fsync", metric: "read1.time.p50"},
				{cell: "no fsync", metric: "read.rate"},
			},
		},
		"data in memory": {
			engine: "docker", params: "parts: [write1]", primary: "write1.rate",
			cells: []string{
				"{name: usual, engine: docker, storage: volume}", "{name: memory, engine: docker, storage: tmpfs}",
				"{name: no fsync, engine: docker, storage: volume, params: {fsync: off}}",
			},
			findings: []finding{
				{
					cell: "memory", metric: "write1.rate", verdict: "better", ratio: anyMore, reason: "write1.server.sync_time",
					beside: "no fsync", apart: [2]float64{0.9, math.Inf(1)},
				},
				{cell: "no fsync", metric: "write1.rate", verdict: "better", ratio: anyMore},
			},
		},
		"a quota of half a CPU": {
			engine: "runc", params: "parts: [read], time: 550ms", primary: "read.rate",
			cells: []string{"{name: usual, engine: runc}", "{name: half, engine: runc, cpus: 0.5}"},
			findings: []finding{{
				cell: "half", metric: "read.rate", verdict: "worse", ratio: [2]float64{0.42, 0.58}, reason: "read.inside.throttled",
			}},
		},
		"a port that a program passes on": {
			engine: "docker", params: "parts: [read]", primary: "read.rate",
			cells: []string{
				"{name: usual, engine: docker, network: bridge}", "{name: published, engine: docker, network: published}",
			},
			findings: []finding{{
				cell: "published", metric: "read.rate", verdict: "worse", ratio: anyLess, reason: "read.inside.relay_time",
			}},
		},
		"TLS": {
			engine: "native", budget: 3 * time.Minute, params: "parts: [read1, read], time: 1s",
			primary: "read1.time.p50,read.rate",
			cells:   []string{"{name: usual, engine: native}", "{name: tls, engine: native, params: {ssl: yes}}"},
			findings: []finding{
				{cell: "tls", metric: "read1.time.p50", verdict: "worse", ratio: anyMore},
				{cell: "tls", metric: "read.rate", verdict: "worse", ratio: anyLess},
			},
		},
		"memory for half of the tables": {
			engine: "runc", params: "parts: [read], scale: 10, shared_buffers: 16MB", primary: "read.rate",
			cells: []string{"{name: usual, engine: runc}", "{name: tight, engine: runc, memory: 80MiB}"},
			findings: []finding{{
				cell: "tight", metric: "read.rate", verdict: "worse", ratio: anyLess, reason: "read.inside.refaults",
			}},
		},
		// The table is six times as large as the memory. The other plants of its kind are short.
		"memory for a sixth of the tables": {
			engine: "runc", budget: 8 * time.Minute, params: "parts: [read], scale: 100", primary: "read.rate",
			cells: []string{"{name: usual, engine: runc}", "{name: tight, engine: runc, memory: 256MiB}"},
			findings: []finding{
				{cell: "tight", metric: "read.rate", verdict: "worse", ratio: anyLess, reason: "read.inside.refaults"},
			},
		},
		"an overlay that ignores syncs": {
			engine: "native", params: "parts: [write1]", primary: "write1.rate", dirs: withVolatileOverlay,
			cells: []string{
				"{name: usual, engine: native, data: USUAL}", "{name: volatile, engine: native, data: OTHER}",
			},
			findings: []finding{{
				cell: "volatile", metric: "write1.rate", verdict: "better", ratio: anyMore, reason: "write1.server.sync_time",
			}},
			warning: "postgres-volatile",
		},
		"a statement that sleeps 2 ms": {
			engine: "native", params: "parts: [load], tool: pgbench, clients: 1, time: 900ms", primary: "load.time.p50",
			cells: []string{
				"{name: usual, engine: native, params: {script: 0.sql}}", "{name: sleeps, engine: native, params: {script: 1.sql}}",
			},
			scripts: []string{"SELECT 1;\n", "SELECT pg_sleep(0.002);\n"},
			// A sleep takes a little longer than it should.
			findings: []finding{{
				cell: "sleeps", metric: "load.time.p50", verdict: "worse", shift: [2]float64{0.002, 0.0024},
			}},
		},
	}
}

// What is planted into PostgreSQL is found with its size, and its cause is named: at most one of two runs misses it,
// which chance explains where each misses it in 5 % (see wantAtMost). So a run that finds it is enough.
func TestPlantedInPostgres(t *testing.T) {
	if testing.Short() {
		return
	}
	needPostgres(t)
	for name, plant := range postgresPlants() {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			require(t, plant.engine)
			p := newTestEnv(t)
			onDisk(t, p)
			for seed := range 2 {
				wrong := p.measurePlant(t, plant, plant.blocks(), seed)
				if len(wrong) == 0 {
					return
				}
				t.Logf("seed %d: %s", seed, strings.Join(wrong, "; "))
			}
			t.Error("neither of two runs found it")
		})
	}
}

// A server beside itself is not found to differ: of all these runs, no more claim it than chance explains. Of the number
// in TARE_TEST_RUNS, such as 20, one may.
func TestPlantedNothingInPostgres(t *testing.T) {
	if testing.Short() {
		return
	}
	needPostgres(t)
	p := newTestEnv(t)
	onDisk(t, p)
	metrics := []string{"read1.time.p50", "read.rate", "write1.rate", "write.rate"}
	plant := postgresPlant{
		params: "parts: [read1, read, write1, write]", primary: strings.Join(metrics, ","),
		cells: []string{"{name: usual, engine: native}", "{name: again, engine: native}"},
	}
	for _, m := range metrics {
		plant.findings = append(plant.findings, finding{cell: "again", metric: m})
	}
	runs, claimed := 2, 0
	more, err := strconv.Atoi(cmp.Or(os.Getenv("TARE_TEST_RUNS"), "0"))
	if err != nil {
		t.Fatalf("TARE_TEST_RUNS: %v", err)
	}
	runs = max(runs, more)
	for seed := range runs {
		wrong := p.measurePlant(t, plant, 10, seed)
		if len(wrong) > 0 {
			t.Logf("seed %d: %s", seed, strings.Join(wrong, "; "))
		}
		claimed += one(len(wrong) > 0)
	}
	t.Logf("%d of %d runs claimed a difference between a server and itself", claimed, runs)
	if more > 0 && claimed > 1 {
		t.Errorf("%d of %d runs did, at most one may", claimed, runs)
	}
	wantAtMost(t, claimed, runs, 0.05, "runs claimed a difference between a server and itself")
}

// measurePlant measures it once, and says what is not as it has to be.
func (p *testEnv) measurePlant(t *testing.T, plant postgresPlant, blocks, seed int) (wrong []string) {
	t.Helper()
	text := "workload: postgres\nparams: {" + strings.Join(usualParams(plant.params), ", ") + "}\nprimary: [" +
		plant.primary + "]\nbaseline: usual\ncells:\n  - " + strings.Join(plant.cells, "\n  - ") + "\n"
	file := filepath.Join(p.dir, "planted.yaml")
	err := os.Chmod(p.dir, 0o711) // the server does not run as root
	for i, sql := range plant.scripts {
		name := fmt.Sprintf("%d.sql", i)
		text = strings.ReplaceAll(text, name, filepath.Join(p.dir, name))
		err = cmp.Or(err, os.WriteFile(filepath.Join(p.dir, name), []byte(sql), 0o644))
	}
	if plant.dirs != nil {
		usual, other := plant.dirs(t, p.dir)
		text = strings.NewReplacer("USUAL", usual, "OTHER", other).Replace(text)
	}
	if err := cmp.Or(err, os.WriteFile(file, []byte(text), 0o644)); err != nil {
		t.Fatal(err)
	}
	budget := cmp.Or(plant.budget, 95*time.Second)
	s := p.begin(t, "run", file, "--blocks", fmt.Sprint(blocks), "--budget", budget.String(), "--warmup", "0", "--washout",
		"30ms", "--precision", "off", "--no-control", "--json", "--seed", fmt.Sprint(seed),
	).endWithin(t, max(2*testTimeout, plant.budget+2*testTimeout))
	if s.code != 0 && s.code != someFailed {
		t.Fatalf("exit code %d\n%s", s.code, s.stderr)
	}
	var d report.Document
	decode(t, s.stdout, &d)
	for _, f := range plant.findings {
		if why := f.missing(d); why != "" {
			wrong = append(wrong, fmt.Sprintf("%s of %s: %s", f.metric, f.cell, why))
		}
	}
	if last := plant.cells[len(plant.cells)-1]; plant.warning != "" && !warnsOf(d, plant.warning, last) {
		wrong = append(wrong, fmt.Sprintf("no %s of %s among %+v", plant.warning, last, d.Warned))
	}
	if s.code == someFailed && len(wrong) > 0 {
		wrong = append(wrong, fmt.Sprintf("trials failed: %+v, %s", d.Runs[0].Trials, s.stderr))
	}
	return wrong
}

// warnsOf reports whether a report warns of one cell alone.
func warnsOf(d report.Document, code, cell string) bool {
	return slices.ContainsFunc(d.Warned, func(w report.Warning) bool {
		return w.Code == code && len(w.Cells) == 1 && strings.Contains(cell, "{name: "+w.Cells[0]+",")
	})
}

// withVolatileOverlay makes a directory, and mounts an overlay to which a sync means nothing.
func withVolatileOverlay(t *testing.T, below string) (usual, overlay string) {
	t.Helper()
	base, err := os.MkdirTemp(below, "overlay-")
	if err != nil {
		t.Fatal(err)
	}
	at := map[string]string{}
	for _, name := range []string{"usual", "lower", "upper", "work", "merged"} {
		at[name] = filepath.Join(base, name)
		err = cmp.Or(err, os.Mkdir(at[name], 0o755))
	}
	if err := cmp.Or(err, os.Chmod(base, 0o711)); err != nil { // the server does not run as root
		t.Fatal(err)
	}
	options := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s,volatile", at["lower"], at["upper"], at["work"])
	if err := unix.Mount("overlay", at["merged"], "overlay", 0, options); err != nil {
		t.Skipf("this test needs the right to mount an overlay with the option volatile: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(at["merged"], unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return at["usual"], at["merged"]
}

// someFailed is the exit code of a run of which some trials failed, as on a busy machine.
const someFailed = 3

// usualParams are the options of a short trial, where others does not have them.
func usualParams(others string) (all []string) {
	for _, one := range []string{
		"scale: 1", "clients: 2", "time: 400ms", "write_time: 500ms", "warmup: 50ms", "shared_buffers: 64MB",
	} {
		if name, _, _ := strings.Cut(one, ":"); !slices.ContainsFunc(strings.Split(others, ", "), func(other string) bool {
			return strings.HasPrefix(other, name+":")
		}) {
			all = append(all, one)
		}
	}
	return append(all, others)
}

// missing says how a run misses a finding; empty = it does not.
func (f *finding) missing(d report.Document) string {
	m := d.Metrics[slices.IndexFunc(d.Metrics, func(m report.Metric) bool { return m.Name == f.metric })]
	rows := m.Conditions[0].Rows
	effect := func(cell string) *report.Effect {
		i := slices.IndexFunc(rows, func(r report.Row) bool { return r.Cell == cell })
		if i < 0 || rows[i].Effect == nil || rows[i].Effect.Estimate == nil {
			return nil
		}
		return rows[i].Effect
	}
	e, beside := effect(f.cell), effect(f.beside)
	if e == nil || f.beside != "" && beside == nil {
		return fmt.Sprintf("no effect among %+v", rows)
	}
	differs := e.Verdict == "worse" || e.Verdict == "better"
	named := slices.ContainsFunc(d.Reasons, func(r report.Reason) bool {
		return r.Metric == f.reason && r.Cell == f.cell &&
			slices.ContainsFunc(r.For, func(e report.Explained) bool { return e.Metric == f.metric })
	})
	switch {
	case f.verdict == "" && differs || f.verdict != "" && e.Verdict != f.verdict:
		return fmt.Sprintf("%s, by the ratio %v", e.Verdict, *e.Estimate)
	case f.ratio[1] > 0 && (*e.Estimate < f.ratio[0] || *e.Estimate > f.ratio[1]):
		return fmt.Sprintf("the ratio %v is not in %v", *e.Estimate, f.ratio)
	case f.shift[1] > 0 && !covers(e.Shift, f.shift):
		return fmt.Sprintf("the shift %+v covers nothing of %v", e.Shift, f.shift)
	case beside != nil && (*e.Estimate < f.apart[0]**beside.Estimate || *e.Estimate > f.apart[1]**beside.Estimate):
		return fmt.Sprintf("the ratio %v is not %v times the %v of %s", *e.Estimate, f.apart, *beside.Estimate, f.beside)
	case f.reason != "" && !named:
		return fmt.Sprintf("%s is not among the reasons %+v", f.reason, d.Reasons)
	}
	return ""
}

// covers reports whether the interval of a shift has a part of another interval.
func covers(s *report.Shift, of [2]float64) bool {
	return s != nil && s.Low != nil && s.High != nil && *s.Low <= of[1] && *s.High >= of[0]
}
