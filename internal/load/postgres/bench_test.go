package postgres_test

import (
	"bufio"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
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

// BenchmarkBesideOthers measures with this load and with pgbench by turns, each on the first CPU, against a server on
// the second. In each round it is drawn who goes first, and a checkpoint comes before each, so both find the same. It
// reports the medians of the ratios, and prints them as a table beside what is wanted and how far the rounds of pgbench
// are apart, largest by smallest. It asserts nothing.
func BenchmarkBesideOthers(b *testing.B) {
	if _, err := exec.LookPath("taskset"); err != nil {
		b.Skipf("there is nothing to pin with: %v", err)
	}
	seed := uint64(time.Now().UnixNano())
	r := &rivals{
		pgbench: postgrestest.Program(b, "pgbench"),
		server: postgrestest.Start(b, postgrestest.Options{
			Settings: []string{"shared_buffers=256MB", "max_wal_size=8GB", "checkpoint_timeout=1h", "autovacuum=off"},
			Launcher: []string{"taskset", "-c", "1"},
		}),
		rows: map[string]string{}, random: rand.New(rand.NewPCG(seed, 0)),
	}
	r.sql = r.server.Connect(b)
	populate(b, r.sql, scale)
	for _, clients := range []string{"1", "8", "32"} {
		b.Run("select-"+clients, func(b *testing.B) { r.compare(b, postgres.SelectOnly, clients) })
	}
	for _, clients := range []string{"1", "8"} {
		b.Run("tpcb-"+clients, func(b *testing.B) { r.compare(b, postgres.TPCBLike, clients) })
	}
	b.Run("open", r.openLoop)
	b.Run("populate", r.populate)
	fmt.Fprintf(os.Stderr, "seed %d\n%s\n", seed, r.table()) // b.Log of a benchmark that only has others is not shown
}

// scale is the scale of the benchmark's tables.
const scale = 10

type rivals struct {
	pgbench string
	server  *postgrestest.Server
	sql     *postgres.Conn
	random  *rand.Rand
	rows    map[string]string // of the table, by their names
}

// inTurn has all do their work in an order that is drawn, with a checkpoint before each.
func (r *rivals) inTurn(b *testing.B, all ...func()) {
	b.Helper()
	for _, i := range r.random.Perm(len(all)) {
		if err := r.sql.Exec(b.Context(), "CHECKPOINT"); err != nil {
			b.Fatal(err)
		}
		all[i]()
	}
}

// tell reports the median of a ratio, or of another number, and keeps it for the table with its range and what is
// wanted of it.
func (r *rivals) tell(b *testing.B, what string, all []float64, wanted string) {
	b.Helper()
	b.ReportMetric(median(all), what)
	name := strings.TrimPrefix(b.Name(), "BenchmarkBesideOthers/") + " " + what
	r.rows[name] = fmt.Sprintf("%-28s %8.3f  (%.3f to %.3f)  wanted: %s", name, median(all), slices.Min(all),
		slices.Max(all), wanted)
}

// table has all rows.
func (r *rivals) table() string {
	lines := []string{fmt.Sprintf("tare beside pgbench, medians of at most %d rounds (smallest to largest):", rounds)}
	for _, name := range slices.Sorted(maps.Keys(r.rows)) {
		lines = append(lines, r.rows[name])
	}
	return strings.Join(lines, "\n")
}

// times are those of one program in one round.
type times struct{ rate, p50, p99, cpu float64 }

func (r *rivals) compare(b *testing.B, script, clients string) {
	var rate, p50, p99, cpu []float64
	var theirs []times
	for range min(b.N, rounds) {
		var ours map[string]float64
		var one times
		var used time.Duration // with connecting and preparing, as pgbench's
		r.inTurn(b, func() {
			before := affinity.CPUTime()
			ours = mustRun(b, r.server, "script="+script, "clients="+clients, fmt.Sprintf("scale=%d", scale), "cpus=0",
				"time=2s", "warmup=0s").Values
			used = affinity.CPUTime() - before
		}, func() { r.plain(b, &one, script, clients) }, func() { r.logging(b, &one, script, clients) })
		theirs = append(theirs, one)
		rate, p50 = append(rate, ours["rate"]/one.rate), append(p50, ours["time.p50"]/one.p50)
		p99, cpu = append(p99, ours["time.p99"]/one.p99), append(cpu, used.Seconds()/ours["committed"]/one.cpu)
	}
	within := func(of func(times) float64) string {
		var all []float64
		for _, one := range theirs {
			all = append(all, of(one))
		}
		return fmt.Sprintf("within pgbench's own %.3f", slices.Max(all)/slices.Min(all))
	}
	r.tell(b, "rate/pgbench", rate, "at least 0.98; "+within(func(t times) float64 { return t.rate }))
	r.tell(b, "p50/pgbench", p50, within(func(t times) float64 { return t.p50 }))
	r.tell(b, "p99/pgbench", p99, within(func(t times) float64 { return t.p99 }))
	r.tell(b, "cpu/pgbench", cpu, "at most 1")
	b.ReportMetric(0, "ns/op")
}

func median(all []float64) float64 {
	slices.Sort(all)
	return (all[(len(all)-1)/2] + all[len(all)/2]) / 2
}

// words are pgbench's arguments for a script.
func words(script, clients string, more ...string) []string {
	return append([]string{"-n", "-M", "prepared", "-b", script, "-c", clients, "-j", "1"}, more...)
}

// plain lets pgbench measure the rate and the CPU time, without a log, which costs it some percent.
func (r *rivals) plain(b *testing.B, t *times, script, clients string) {
	b.Helper()
	out, cpu := r.run(b, words(script, clients, "-T", "2")...)
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
}

// logging lets pgbench measure the times, which only its log has.
func (r *rivals) logging(b *testing.B, t *times, script, clients string) {
	b.Helper()
	prefix := filepath.Join(b.TempDir(), "log")
	r.run(b, words(script, clients, "-T", "2", "-l", "--log-prefix="+prefix)...)
	t.p50, t.p99 = logged(b, prefix)
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
		var ours, theirs time.Duration
		r.inTurn(b, func() {
			before := affinity.CPUTime()
			v := mustRun(b, r.server, "clients=8", fmt.Sprintf("scale=%d", scale), "cpus=0", "time=2s", "warmup=0s",
				"rate="+rate).Values
			ours = affinity.CPUTime() - before
			off = append(off, 100*math.Abs(v["rate"]/v["offered"]-1))
		}, func() { _, theirs = r.run(b, words(postgres.SelectOnly, "8", "-T", "2", "-R", rate)...) })
		cpu = append(cpu, ours.Seconds()/theirs.Seconds())
	}
	r.tell(b, "%off", off, "at most 0.1")
	r.tell(b, "cpu/pgbench", cpu, "at most 1")
	b.ReportMetric(0, "ns/op")
}

// populate reports how long it takes to make tables beside pgbench -i.
func (r *rivals) populate(b *testing.B) {
	var ratios []float64
	for range min(b.N, rounds) {
		var ours, theirs time.Duration
		took := func(into *time.Duration, do func()) func() {
			return func() {
				began := time.Now()
				do()
				*into = time.Since(began)
			}
		}
		r.inTurn(b, took(&ours, func() { populate(b, r.sql, scale) }),
			took(&theirs, func() { pgbenchInit(b, r.pgbench, r.server, scale) }))
		ratios = append(ratios, ours.Seconds()/theirs.Seconds())
	}
	r.tell(b, "time/pgbench", ratios, "at most 1.2")
	b.ReportMetric(0, "ns/op")
}
