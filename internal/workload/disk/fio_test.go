package disk

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/load"
	"github.com/tare-bench/tare/internal/load/disk"
)

// planFor is what the load makes of these options.
func planFor(tb testing.TB, words ...string) disk.Plan {
	tb.Helper()
	args, err := load.ParseArgs(words)
	if err != nil {
		tb.Fatal(err)
	}
	plan, err := disk.Read(args)
	if err != nil {
		tb.Fatal(err)
	}
	return plan
}

// TestRealFIO has the host's fio do what it is asked for, in every way, and
// reads what it says.
func TestRealFIO(t *testing.T) {
	if _, err := exec.LookPath(fio.Name); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip("install fio to test with it")
	}
	span := "1s"
	if testing.Short() {
		span = "500ms"
	}
	for _, facts := range []map[string]string{
		{disk.FactIO: disk.Libaio, disk.FactDirect: disk.No},
		{disk.FactIO: disk.Libaio, disk.FactDirect: disk.Yes},
		{disk.FactIO: disk.Threads, disk.FactDirect: disk.Yes},
	} {
		dir := t.TempDir() + "/a:b" // a colon separates names to fio
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		plan := planFor(t, "dir="+dir, "size=3MiB", "depth=4", "time="+span)
		argv := fioArgv(plan, facts)
		out, err := exec.Command(argv[0], argv[1:]...).Output()
		if err != nil {
			t.Fatalf("%v: %v: %s", facts, err, out)
		}
		r, err := parseFIO(out, plan)
		if err != nil {
			t.Fatalf("%v: %v", facts, err)
		}
		for _, name := range []string{
			"disk.randread.iops", "disk.randwrite.iops", "disk.read.rate", "disk.write.rate",
			"disk.fsync.p50", "disk.randread.p50", "disk.randwrite.p50", "disk.read.p50", "disk.write.p50",
		} {
			if r.Values[name] <= 0 {
				t.Errorf("%v: %s = %v", facts, name, r.Values[name])
			}
		}
		left, err := os.ReadDir(dir)
		if err != nil || len(left) > 0 {
			t.Errorf("%v: left behind: %v, %v", facts, left, err)
		}
	}
}

func TestFIOArgv(t *testing.T) {
	plan := planFor(t, "dir=/data", "size=8MiB", "depth=4", "time=1s", "patterns=randwrite,write,fsync")
	argv := fioArgv(plan, map[string]string{disk.FactIO: disk.Threads, disk.FactDirect: disk.No})
	var jobs []string
	for _, a := range argv {
		if name, ok := strings.CutPrefix(a, "--name="); ok {
			jobs = append(jobs, name)
		}
	}
	if want := []string{"fill", "randwrite", "settle", "write", "settle", "fsync"}; !slices.Equal(jobs, want) {
		t.Errorf("jobs %v, want %v", jobs, want)
	}
	job := argv[slices.Index(argv, "--name=write"):]
	job = job[:slices.Index(job, "--name=settle")]
	want := []string{
		"--name=write", "--filename=/data/tare-fio", "--thread=1", "--stonewall", "--size=8388608", "--overwrite=1",
		"--randrepeat=1", "--norandommap=1",
		"--rw=write", "--bs=131072", "--invalidate=1", "--time_based=1", "--runtime=1000000us", "--ramp_time=100000us",
		"--lat_percentiles=1", "--clat_percentiles=0", "--direct=0", "--ioengine=psync", "--numjobs=4", "--group_reporting=1",
		"--size=2097152", "--offset_increment=2097152",
	}
	if diff := cmp.Diff(want, job); diff != "" {
		t.Errorf("job write (-want +got):\n%s", diff)
	}
}

// said is what fio prints about one random read and one fsync pattern, shortened.
const said = `{"fio version": "fio-3.33", "time": "now", "jobs": [
{"jobname": "fill", "error": 0},
{"jobname": "randread", "error": 0,
 "read": {"iops": 1234.5, "lat_ns": {"N": 30, "bins": {"1000": 10, "2000": 10, "4000": 10}}}, "write": {"iops": 0, "lat_ns": {"N": 0}}},
{"jobname": "fsync", "error": 0,
 "write": {"iops": 10, "lat_ns": {"N": 20, "bins": {"1": 20}}}, "sync": {"total_ios": 0, "lat_ns": {"N": 20, "bins": {"500000": 20}}}}]}
`

func TestParseFIO(t *testing.T) {
	plan := planFor(t, "patterns=randread,fsync")
	for _, text := range []string{said, "note: something\nand more\n" + said} {
		r, err := parseFIO([]byte(text), plan)
		if err != nil {
			t.Fatal(err)
		}
		near := func(name string, want float64) {
			t.Helper()
			if got := r.Values[name]; got < want*0.998 || got > want*1.002 {
				t.Errorf("%s = %v, want %v", name, got, want)
			}
		}
		near("disk.randread.iops", 1234.5)
		near("disk.randread.p50", 2*time.Microsecond.Seconds())
		near("disk.fsync.p50", 500*time.Microsecond.Seconds())
		if len(r.Values) != 3 || len(r.Distributions) != 2 {
			t.Errorf("%d values and %d distributions, want 3 and 2", len(r.Values), len(r.Distributions))
		}
	}
}

func TestParseFIORefuses(t *testing.T) {
	plan := planFor(t, "patterns=randread,fsync")
	for _, tt := range []struct {
		text, want string
		foreign    bool // it is not fio 3's
	}{
		{"", "unexpected end", true},
		{"fio: command not found\n", "invalid character", true},
		{said + "more", "invalid character", true},
		{strings.Replace(said, "fio-3.33", "fio-2.99", 1), `this is "fio-2.99"`, true},
		{`{"jobs": []}`, `this is ""`, true},
		{strings.Replace(said, `"jobname": "fsync"`, `"jobname": "sync"`, 1), "fsync: ", true},
		{strings.Replace(said, `"jobname": "fill"`, `"jobname": "fsync"`, 1), "two jobs", true},
		{strings.Replace(said, `"jobname": "fsync", "error": 0`, `"jobname": "fsync", "error": 28`, 1), "it ended with error 28", false},
		{strings.Replace(said, `"2000": 10`, `"two": 10`, 1), `10 latencies of "two" ns`, true},
		{strings.Replace(said, `"2000": 10`, `"2000": -1`, 1), `-1 latencies`, true},
		{strings.Replace(said, `"2000": 10`, `"2000": 9223372036854775807`, 1), `latencies of "2000"`, true},
		{strings.Replace(said, `1234.5`, `0`, 1), "0 requests per second", true},
		{strings.Replace(said, `1234.5`, `1e300`, 1), "requests per second", true},
		{strings.Replace(said, `"500000": 20`, `"500000": 19`, 1), "19 requests completed", false},
	} {
		_, err := parseFIO([]byte(tt.text), plan)
		if err == nil || !strings.Contains(err.Error(), tt.want) || errors.Is(err, errFIO) != tt.foreign {
			t.Errorf("%.60q: %v, want %q", tt.text, err, tt.want)
		}
	}
}

func FuzzParseFIO(f *testing.F) {
	f.Add([]byte(said))
	f.Add([]byte("note\n" + said))
	f.Add(
		[]byte(
			`{"fio version":"fio-3.1","jobs":[{"jobname":"randread","read":{"iops":1e308,"lat_ns":{"bins":{"9223372036854775807":1099511627776}}}}]}`,
		),
	)
	plan := planFor(f, "patterns=randread,fsync")
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := parseFIO(text, plan)
		if err != nil {
			return
		}
		if _, err := r.Line(); err != nil {
			t.Error(err)
		}
		for name, d := range r.Distributions {
			if _, err := d.Histogram(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// What fio says is in the error, and a way to hand in requests that it cannot use is
// replaced by threads, or refused where it was asked for.
func TestFIOThatIsRefused(t *testing.T) {
	const words = "fio: pid=7, err=-1/file:ioengines.c:321, func=get_events, error=Operation not permitted"
	failed := errors.New("the process inside ended with exit status 4")
	why := withOutput([]byte("\n"+words+"\n{\"fio version\":\"fio-3.39\"}"), failed)
	if !errors.Is(why, failed) || !strings.Contains(why.Error(), "func=get_events") {
		t.Errorf("the error is %v, want fio's own words in it", why)
	}
	if got := withOutput([]byte("{}"), failed); got != failed {
		t.Errorf("of one that says nothing the error is %v", got)
	}
	facts := map[string]string{disk.FactIO: disk.Libaio}
	if err := useThreads(disk.Libaio, facts, why); !errors.Is(err, bench.ErrUnsupported) ||
		!strings.Contains(err.Error(), "io=threads") || facts[disk.FactIO] != disk.Libaio {
		t.Errorf("libaio was asked for: %v, and it is %s; want a refusal", err, facts[disk.FactIO])
	}
	if err := useThreads(disk.Auto, facts, why); err != nil || facts[disk.FactIO] != disk.Threads {
		t.Errorf("nothing was asked for: %v, and it is %s; want threads", err, facts[disk.FactIO])
	}
}

// The check uses the way that the patterns would, and leaves nothing.
func TestTryingArgv(t *testing.T) {
	got := probeArgv("/data", map[string]string{disk.FactIO: disk.Uring, disk.FactDirect: disk.Yes})
	for _, want := range []string{"--ioengine=io_uring", "--direct=1", "--filename=/data/tare-fio-check", "--unlink=1"} {
		if !slices.Contains(got, want) {
			t.Errorf("%q lacks %q", got, want)
		}
	}
}
