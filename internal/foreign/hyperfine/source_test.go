package hyperfine_test

import (
	"strings"
	"testing"

	"github.com/tare-bench/tare/internal/foreign"
	"github.com/tare-bench/tare/internal/foreign/foreigntest"
	"github.com/tare-bench/tare/internal/foreign/hyperfine"
)

func TestRead(t *testing.T) { foreigntest.Golden(t, hyperfine.Source(), "testdata/*.json") }

func FuzzRead(f *testing.F) {
	foreigntest.Fuzz(f, hyperfine.Source(), "testdata/*.json",
		`{"results":[{"command":"\u001b[2J","times":[0,1e300],"exit_codes":[null,3]}]}`,
		`{"results":[{"command":"a","times":[1],"parameters":{"file":"b","":""}}]}`+"\n{}\nx\n"+`{"results":[null]}`)
}

func TestWrongFiles(t *testing.T) {
	foreigntest.Refused(t, hyperfine.Source(), "--export-json", map[string]string{
		"":                     "f: there is no result of hyperfine in it",
		"no JSON":              "f: there is no result of hyperfine in it",
		`{"benchmarks": []}`:   "f: there is no result of hyperfine in it",
		"\n{\"results\": [\n{": "f:3: its JSON ends too early",
		"{\n\"results\": [,]}": "f:2: its JSON is damaged: invalid character ',' looking for beginning of value",
		"{\"results\":\n[{\"command\": \"a\",\n\"times\": [\"1\"]}]}":                   `f:3: "results.times" is string, and must be a number`,
		`{"results": {"command": "a"}}`:                                                 `f:1: "results" is object, and must be an array`,
		`{"results": [{"command": "a", "mean": 1}]}`:                                    `f:1: command "a": it has no "times"`,
		`{"results": [{"command": "a", "times": [1, -1]}]}`:                             `f:1: command "a": -1 is no time`,
		`{"results": [{"command": "a", "times": [1], "exit_codes": [0, 0]}]}`:           `f:1: command "a": it has 1 times and 2 exit codes`,
		`{"results": [{"command": "a", "times": [1], "memory_usage_byte": [1, 2, 3]}]}`: `f:1: command "a": it has 1 times and 3 numbers of bytes`,
	})
}

// A file of a directory that is of something else is passed over, and a label of the user is not lost to a parameter
// that is called like one of tare's.
func TestDirectory(t *testing.T) {
	other, mine := foreign.NewFile("d/package.json", `{"name": "x"}`), foreign.NewFile("d/a.json",
		`{"results": [{"command": "a", "times": [1, 2], "exit_codes": [0, null], "parameters": {"variant": "x", "n": "1"}}]}`)
	other.InDir, mine.InDir = true, true
	sets, err := foreigntest.Read(hyperfine.Source(), other, mine)
	if err != nil || len(sets) != 1 {
		t.Fatalf("%d sets, %v; want one", len(sets), err)
	}
	var labels []string
	for _, l := range sets[0].Labels {
		labels = append(labels, l.Key+"="+l.Value)
	}
	if got := strings.Join(labels, " "); got != "variant=a n=1 file=a.json" {
		t.Errorf("labels %s", got)
	}
	if all := sets[0].Trials; all[0].Failed != "" || all[1].Failed != "the command was ended by a signal" {
		t.Errorf("failures %q and %q", all[0].Failed, all[1].Failed)
	}
}
