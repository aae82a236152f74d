package postgres_test

import (
	"bufio"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tare-bench/tare/internal/kernel/affinity"
	"github.com/tare-bench/tare/internal/load/postgres"
	"github.com/tare-bench/tare/internal/load/postgres/postgrestest"
)

// rounds is how many times both programs are compared, at most: each takes some seconds.
const rounds = 10

// BenchmarkBesideOthers measures with this load and with pgbench by turns, each on the first CPU,
// against a server on the second. It reports the medians of the ratios, and how far the rounds of
// pgbench are apart, largest by smallest.
func BenchmarkBesideOthers(b *testing.B) {
	if _, err := exec.LookPath("taskset"); err != nil {
		b.Skipf("there is nothing to pin with: %v", err)
	}
	r := &rivals{
		pgbench: postgrestest.Program(b, "pgbench"),
		server: postgrestest.Start(b, postgrestest.Options{
			Settings: []string{"shared_buffers=256MB", "max_wal_size=8GB", "checkpoint_timeout=1h", "autovacuum=off"},
			Launcher: []string{"taskset", "-c", "1"},
		}),
	}
	populate(b, r.server.Connect(b), scale)
	for _, clients := range []string{"1", "8", "32"} {
		b.Run("select-"+clients, func(b *testing.B) { r.compare(b, postgres.SelectOnly, clients) })
	}
	for _, clients := range []string{"1", "8"} {
		b.Run("tpcb-"+clients, func(b *testing.B) { r.compare(b, postgres.TPCBLike, clients) })
	}
	b.Run("open", r.openLoop)
	b.Run("populate", r.populate)
}

// scale is the scale of the benchmark's tables.
const scale = 10

type rivals struct {
	pgbench string
	server  *postgrestest.Server
}

// times are those of one program in one round.
type times struct{ rate, p50, p99, cpu float64 }

func (r *rivals) compare(b *testing.B, script, clients string) {
	ratios := map[string][]float64{}
	var theirs []times
	for range min(b.N, rounds) {
		v := mustRun(b, r.server, "script="+script, "clients="+clients, fmt.Sprintf("scale=%d", scale), "cpus=0",
			"time=2s", "warmup=0s").Values
		one := r.round(b, script, clients)
		theirs = append(theirs, one)
		for name, ratio := range map[string]float64{
			"rate": v["rate"] / one.rate, "p50": v["time.p50"] / one.p50, "p99": v["time.p99"] / one.p99,
			"cpu": v["cpu_each"] / one.cpu,
		} {
			ratios[name+"/pgbench"] = append(ratios[name+"/pgbench"], ratio)
		}
	}
	for name, all := range ratios {
		b.ReportMetric(median(all), name)
	}
	for name, of := range map[string]func(times) float64{
		"p50": func(t times) float64 { return t.p50 }, "p99": func(t times) float64 { return t.p99 },
		"rate": func(t times) float64 { return t.rate },
	} {
		var all []float64
		for _, one := range theirs {
			all = append(all, of(one))
		}
		b.ReportMetric(slices.Max(all)/slices.Min(all), "pgbench-"+name+"-spread")
	}
	b.ReportMetric(0, "ns/op")
}

func median(all []float64) float64 {
	slices.Sort(all)
	return (all[(len(all)-1)/2] + all[len(all)/2]) / 2
}

// round lets pgbench measure twice: the rate and the CPU time without a log, which costs it some
// percent, and the times with one.
func (r *rivals) round(b *testing.B, script, clients string) (t times) {
	b.Helper()
	words := []string{"-n", "-M", "prepared", "-b", script, "-c", clients, "-j", "1"}
	out, cpu := r.run(b, append(words, "-T", "2")...)
	number := func(form string) float64 {
		found := regexp.MustCompile(form).FindStringSubmatch(out)
		if found == nil {
			b.Fatalf("no %s in %s", form, out)
		}
		v, _ := strconv.ParseFloat(found[1], 64) // the form is a number's
		return v
	}
	t.rate = number(`tps = ([0-9.]+)`)
	t.cpu = cpu.Seconds() / number(`actually processed: ([0-9]+)`)
	prefix := filepath.Join(b.TempDir(), "log")
	r.run(b, append(words, "-T", "1", "-l", "--log-prefix="+prefix)...)
	t.p50, t.p99 = logged(b, prefix)
	return t
}

// run runs pgbench on the first CPU, and returns its CPU time too.
func (r *rivals) run(b *testing.B, words ...string) (out string, cpu time.Duration) {
	b.Helper()
	argv := append([]string{"-c", "0", r.pgbench, "-U", "postgres", "-h", "127.0.0.1", "-p", strconv.Itoa(r.server.Port)},
		append(words, "postgres")...)
	cmd := exec.CommandContext(b.Context(), "taskset", argv...)
	text, err := cmd.Output()
	if err != nil {
		b.Fatalf("%v\n%s", err, text)
	}
	return string(text), cmd.ProcessState.SystemTime() + cmd.ProcessState.UserTime()
}

// logged returns percentiles of the times in pgbench's log, in seconds.
func logged(b *testing.B, prefix string) (p50, p99 float64) {
	b.Helper()
	found, _ := filepath.Glob(prefix + ".*") // the pattern is good
	var all []float64
	for _, path := range found {
		file, err := os.Open(path)
		if err != nil {
			b.Fatal(err)
		}
		for lines := bufio.NewScanner(file); lines.Scan(); {
			us, err := strconv.ParseFloat(strings.Fields(lines.Text())[2], 64)
			if err != nil {
				b.Fatal(err)
			}
			all = append(all, us/1e6)
		}
		_ = file.Close() // it was only read
	}
	slices.Sort(all)
	at := func(p float64) float64 { return all[int(p*float64(len(all)))] }
	return at(0.50), at(0.99)
}

// openLoop reports how well a rate is kept that is 70 % of the highest, and the CPU time beside that of
// pgbench with the same rate.
func (r *rivals) openLoop(b *testing.B) {
	highest := mustRun(b, r.server, "clients=8", fmt.Sprintf("scale=%d", scale), "cpus=0", "time=1s").Values["rate"]
	rate := strconv.Itoa(int(0.7 * highest))
	var off, cpu []float64
	for range min(b.N, rounds) {
		before := affinity.CPUTime()
		v := mustRun(b, r.server, "clients=8", fmt.Sprintf("scale=%d", scale), "cpus=0", "time=2s", "warmup=0s",
			"rate="+rate).Values
		ours := affinity.CPUTime() - before
		_, theirs := r.run(b, "-n", "-M", "prepared", "-S", "-c", "8", "-T", "2", "-R", rate)
		off = append(off, 100*math.Abs(v["rate"]/v["offered"]-1))
		cpu = append(cpu, ours.Seconds()/theirs.Seconds())
	}
	b.ReportMetric(median(off), "%off")
	b.ReportMetric(median(cpu), "cpu/pgbench")
	b.ReportMetric(0, "ns/op")
}

// populate reports how long it takes to make tables beside pgbench -i.
func (r *rivals) populate(b *testing.B) {
	c := r.server.Connect(b)
	var ratios []float64
	for range min(b.N, rounds) {
		if err := c.Exec(b.Context(), "CHECKPOINT"); err != nil {
			b.Fatal(err)
		}
		began := time.Now()
		populate(b, c, scale)
		ours := time.Since(began)
		if err := c.Exec(b.Context(), "CHECKPOINT"); err != nil {
			b.Fatal(err)
		}
		began = time.Now()
		pgbenchInit(b, r.pgbench, r.server, scale)
		ratios = append(ratios, ours.Seconds()/time.Since(began).Seconds())
	}
	b.ReportMetric(median(ratios), "time/pgbench")
	b.ReportMetric(0, "ns/op")
}
