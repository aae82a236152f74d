package fio_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tare-bench/tare/internal/foreign"
	"github.com/tare-bench/tare/internal/foreign/fio"
	"github.com/tare-bench/tare/internal/foreign/foreigntest"
)

func TestRead(t *testing.T) { foreigntest.Golden(t, fio.Source(), "testdata/*.json") }

// job is an output of one job.
func job(rest string) string {
	return `{"fio version": "fio-3.33", "jobs": [{"jobname": "a", ` + rest + `}]}`
}

func FuzzRead(f *testing.F) {
	foreigntest.Fuzz(f, fio.Source(), "testdata/*.json",
		job(`"read": {"iops": 1e12, "bw_bytes": 1e18, "total_ios": 1, "lat_ns": {"N": 5, "mean": 1, "max": 2, "bins": {"9223372036854775807": 1}}}`),
		job(`"error": -1, "job options": {"rw": null}`), job(`"sync": {"lat_ns": {"N": 20, "percentile": {"50.000000": 0}}}`))
}

func TestWrongFiles(t *testing.T) {
	const requests = `"total_ios": 9, "iops": 9`
	foreigntest.Refused(t, fio.Source(), "--output-format=json", map[string]string{
		"":                               "f: there is no result of fio in it",
		"read: IOPS=12.3k, BW=48MiB/s\n": "f: there is no result of fio in it",
		`{"jobs": []}`:                   "f: there is no result of fio in it",
		"note\n{\"fio version\": \"fio-2.99\", \"jobs\": [{}]}": `f:2: tare reads fio 3, and this is "fio-2.99"`,
		"{\"fio version\": \"fio-3.33\",\n\"jobs\": [{\"read\": {\"iops\": nan}}]}": "f:2: its JSON is damaged: invalid character 'a' in " +
			"literal null (expecting 'u')",
		job(`"read": {"total_ios": 9, "iops": 1e20}`):                                          `f:1: job "a": 1e+20 requests and 0 bytes per second`,
		job(`"read": {"total_ios": "9"}`):                                                      `f:1: "jobs.read.total_ios" is string, and must be a whole number of up to 18 digits`,
		job(`"read": {` + requests + `, "lat_ns": {"N": 1, "bins": {"x": 1}}}`):                `f:1: job "a": 1 latencies of "x" ns`,
		job(`"read": {` + requests + `, "lat_ns": {"N": 1, "mean": -1}}`):                      `f:1: job "a": 1 times with the mean -1 ns and the largest 0 ns`,
		job(`"read": {` + requests + `, "lat_ns": {"N": 1, "percentile": {"50.000000": -1}}}`): `f:1: job "a": a percentile is below 0`,
	})
}

// A job that failed, or did nothing that is read, is a failed trial, and others stay.
func TestFailures(t *testing.T) {
	for text, want := range map[string]string{
		job(`"error": 28`):                         "fio ended with error 28: no space left on device",
		job(`"job options": {"rw": "randtrim"}`):   `tare does not read fio's pattern "randtrim"`,
		job(`"job options": {"rw": "randread"}`):   "no request completed",
		job(`"read": {"total_ios": 9, "iops": 0}`): "no request completed",
	} {
		sets, err := foreigntest.Read(fio.Source(), foreign.NewFile("f", text))
		if err != nil {
			t.Fatal(err)
		}
		if got := sets[0].Trials[0].Failed; got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

// What tells jobs apart is what they were asked for; where that is the same, their names do.
func TestLevels(t *testing.T) {
	two := func(a, b string) string {
		side := `"read": {"total_ios": 9, "iops": 9}`
		return `{"fio version": "fio-3.33", "global options": {"bs": "4k"}, "jobs": [{"jobname": "a", "job options": {` + a + `}, ` +
			side + `}, {"jobname": "a", "job options": {` + b + `}, ` + side + `}]}`
	}
	for _, tt := range []struct{ a, b, want string }{
		{`"rw": "randread"`, `"rw": "read"`, "bs=4k | bs=4k"},
		{`"iodepth": "1"`, `"iodepth": "8"`, "bs=4k iodepth=1 | bs=4k iodepth=8"},
		{`"bs": "1m"`, ``, "bs=1m | bs=4k"},
		{``, ``, "bs=4k job=a | bs=4k job=a 2"},
	} {
		sets, err := foreigntest.Read(fio.Source(), foreign.NewFile("f", two(tt.a, tt.b)))
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, trial := range sets[0].Trials {
			var words []string
			for _, l := range trial.Levels {
				words = append(words, l.Key+"="+l.Value)
			}
			all = append(all, strings.Join(words, " "))
		}
		if got := strings.Join(all, " | "); got != tt.want {
			t.Errorf("%s, %s: %s, want %s", tt.a, tt.b, got, tt.want)
		}
		if notes := sets[0].Notes; len(notes) != 1 || !strings.Contains(notes[0].Text, "at the same time") {
			t.Errorf("jobs of one group: notes %v", notes)
		}
	}
}

// With --status-interval fio prints the same jobs again and again, of which the last counts. Jobs that ran one after
// the other all count, however short they were.
func TestStatus(t *testing.T) {
	at := func(printed, ran int) string {
		return fmt.Sprintf(`{"fio version": "fio-3.33", "timestamp_ms": %d, "jobs": [{"jobname": "a", "read": {"total_ios": %d, "iops": 9, `+
			`"runtime": %d}}]}`+"\n", 1_767_355_200_000+printed, ran, ran)
	}
	for _, tt := range []struct {
		name string
		text string
		want int
	}{
		{"status", at(1000, 1000) + at(2000, 2000) + at(3100, 3000), 1},
		{"end just after a status", at(1000, 1000) + at(2000, 2000) + at(2050, 2000), 1},
		{"runs", at(3000, 3000) + at(6050, 3001) + at(9100, 3000), 3},
		{"longer and longer", at(1000, 1000) + at(3050, 2000) + at(7100, 4000), 3},
		{"short ones", at(200, 200) + at(450, 200) + at(800, 300), 3},
	} {
		sets, err := foreigntest.Read(fio.Source(), foreign.NewFile("f", tt.text))
		if err != nil {
			t.Fatal(err)
		}
		if got := len(sets[0].Trials); got != tt.want {
			t.Errorf("%s: %d trials, want %d", tt.name, got, tt.want)
		}
	}
}
