package cpu

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/load/cpu"
)

func said(tb testing.TB, file string) []byte {
	tb.Helper()
	text, err := os.ReadFile("testdata/" + file)
	if err != nil {
		tb.Fatal(err)
	}
	return text
}

// What the programs really print.
func TestRates(t *testing.T) {
	for file, want := range map[string]float64{"sysbench-1.0.20.txt": 571.49, "stress-ng-0.15.06.txt": 469.32} {
		read := sysbenchRate
		if strings.HasPrefix(file, "stress") {
			read = stressRate
		}
		if got, ok := read(said(t, file)); got != want || !ok {
			t.Errorf("%s: %v, %t, want %v", file, got, ok, want)
		}
	}
}

func TestRatesRefuse(t *testing.T) {
	stress := string(said(t, "stress-ng-0.15.06.txt"))
	for name, test := range map[string]struct {
		read func([]byte) (float64, bool)
		text string
	}{
		"nothing":                        {sysbenchRate, ""},
		"sysbench 0.4":                   {sysbenchRate, "    total number of events:              10000\n"},
		"no events":                      {sysbenchRate, "    events per second:     0.00\n"},
		"not a number":                   {sysbenchRate, "    events per second:     NaN\n"},
		"infinite":                       {sysbenchRate, "    events per second:     1e999\n"},
		"stress-ng: nothing":             {stressRate, ""},
		"stress-ng: no metrics":          {stressRate, "stress-ng: info:  [1] dispatching hogs: 2 cpu\n"},
		"a column less":                  {stressRate, strings.Replace(stress, " 0.43 ", " ", 1)},
		"columns exchanged":              {stressRate, strings.NewReplacer("469.32", "973.09", "973.09", "469.32").Replace(stress)},
		"a line that is longer than any": {stressRate, strings.Repeat("x", 1<<20) + "\n" + stress},
	} {
		if got, ok := test.read([]byte(test.text)); ok {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestPassMarkScores(t *testing.T) {
	text := string(said(t, "pt_linux-11.0.1002.yml"))
	values, missing := passMarkScores([]byte(text))
	if missing != "" {
		t.Fatalf("missing %s", missing)
	}
	for name, want := range map[string]float64{
		cpu.Single:               3149.3044110167989e6,
		cpu.All + ".integer":     53060.208480000008e6,
		cpu.All + ".sort":        32129.477156627829e3,
		cpu.All + ".compression": 238923.00366760563e3,
		cpu.All + ".physics":     1112.1326643531979,
	} {
		if got := values[name]; math.Abs(got/want-1) > 1e-12 {
			t.Errorf("%s = %v, want %v", name, got, want)
		}
	}
	logs := 0.0
	for _, test := range passMarkTests() {
		logs += math.Log(values[cpu.All+"."+test.kernel])
	}
	if got, want := values[cpu.All], math.Exp(logs/8); math.Abs(got/want-1) > 1e-12 || len(values) != 10 {
		t.Errorf("%s = %v of %d values, want %v of 10", cpu.All, got, len(values), want)
	}
	for old, missing := range map[string]string{
		"CPU_PRIME: 58.000395482095996":        "CPU_PRIME",
		"CPU_SORTING: 32129.477156627829":      "CPU_SORTING",
		"CPU_SINGLETHREAD: 3149.3044110167989": "CPU_SINGLETHREAD",
	} {
		for _, with := range []string{"", missing + ": 0", missing + ": many", missing + ": -1"} {
			if _, got := passMarkScores([]byte(strings.Replace(text, old, with, 1))); got != missing {
				t.Errorf("with %q for %q: missing %q", with, old, got)
			}
		}
	}
}

// Whatever a program prints, a rate is a positive number.
func FuzzTools(f *testing.F) {
	for _, file := range []string{"sysbench-1.0.20.txt", "stress-ng-0.15.06.txt", "pt_linux-11.0.1002.yml"} {
		f.Add(said(f, file))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, read := range []func([]byte) (float64, bool){sysbenchRate, stressRate} {
			if rate, ok := read(text); ok && (!(rate > 0) || math.IsInf(rate, 0)) {
				t.Errorf("a rate of %v", rate)
			}
		}
		values, missing := passMarkScores(text)
		for name, v := range values {
			if !(v > 0) || math.IsInf(v, 0) {
				t.Errorf("%s = %v", name, v)
			}
		}
		if (missing == "") != (len(values) > 0) {
			t.Errorf("missing %q, %d values", missing, len(values))
		}
	})
}

// The directory for results is in the run's own, which is found after a run that was
// killed.
func TestWorkshopIsTheRuns(t *testing.T) {
	dir := t.TempDir()
	f, err := newWorkDir(bench.Task{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	during, _ := filepath.Glob(filepath.Join(dir, "*"))
	if err := f.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	after, _ := filepath.Glob(filepath.Join(dir, "*"))
	if len(during) != 1 || len(after) != 0 {
		t.Errorf("%v, and afterwards %v", during, after)
	}
}

// Results are taken from where a container left them, and from nowhere else.
func TestTakeResults(t *testing.T) {
	elsewhere := t.TempDir()
	outside := filepath.Join(elsewhere, resultsFile)
	for name, test := range map[string]struct {
		leave func(dir string) error
		want  string
	}{
		"in it":   {func(dir string) error { return os.WriteFile(filepath.Join(dir, resultsFile), []byte("own"), 0o600) }, "own"},
		"nothing": {func(string) error { return nil }, ""},
		"a link":  {func(dir string) error { return os.Symlink(outside, filepath.Join(dir, resultsFile)) }, ""},
		"a link to a path": {func(dir string) error {
			return errors.Join(os.Mkdir(filepath.Join(dir, "x"), 0o700), os.Symlink(elsewhere, filepath.Join(dir, "x", "data")))
		}, ""},
		"below it": {func(dir string) error {
			return errors.Join(os.MkdirAll(filepath.Join(dir, "tare-x-y-1", "data"), 0o700),
				os.WriteFile(filepath.Join(dir, "tare-x-y-1", "data", resultsFile), []byte("own"), 0o600))
		}, "own"},
	} {
		dir := t.TempDir()
		if err := errors.Join(os.WriteFile(outside, []byte("foreign"), 0o600), test.leave(dir)); err != nil {
			t.Fatal(err)
		}
		text, err := takeResults(dir)
		if string(text) != test.want || (err == nil) != (test.want != "") {
			t.Errorf("%s: %q, %v", name, text, err)
		}
		if _, err := os.Stat(outside); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if left, _ := takeResults(dir); left != nil {
			t.Errorf("%s: left %q", name, left)
		}
	}
}

// sysbench is asked for what the options say, on one thread and on several, half of the time each.
func TestSysbenchArgs(t *testing.T) {
	var got []string
	params := map[string]string{"prime": "10000", "time": "20s", "threads": "2"}
	for _, job := range sysbenchJobs(bench.Task{Params: params}) {
		got = append(got, strings.Join(job.Spec.Argv, " "))
	}
	want := []string{
		"sysbench cpu --cpu-max-prime=10000 --threads=1 --time=10 --events=0 run",
		"sysbench cpu --cpu-max-prime=10000 --threads=2 --time=10 --events=0 run",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
