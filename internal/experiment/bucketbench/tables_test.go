package bucketbench_test

import (
	"bytes"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/tare-bench/tare/internal/experiment/bucketbench"
	"github.com/tare-bench/tare/internal/experiment/yamldoc/yamldoctest"
)

// results have numbers whose statistics can be reckoned in the head.
func results() []bucketbench.Result {
	timing := func(name string, errors int, ms ...float64) bucketbench.Timing {
		t := bucketbench.Timing{Command: name, Errors: errors}
		for _, v := range ms {
			t.Seconds = append(t.Seconds, v/1000)
		}
		return t
	}
	return []bucketbench.Result{
		{Name: "native", Iterations: 1000, Runs: []bucketbench.Measured{{Threads: 1, Rate: 1171.239}, {Threads: 2, Rate: 1957.1}}},
		{Name: "docker", Iterations: 15, Runs: []bucketbench.Measured{
			{Threads: 1, Rate: 1.4, Commands: []bucketbench.Timing{
				timing(bucketbench.Delete, 0, 2, 4, 4, 4, 5, 5, 7, 9), // mean 5, standard deviation 2
				timing(bucketbench.Stop, 0, 10_000.25),
				timing(bucketbench.Run, 2, 190.5, 181.25, 200),
			}},
			{Threads: 3, Rate: 2.807, Commands: []bucketbench.Timing{
				timing(bucketbench.Run, 0, 0.5, 1.5),
				timing(bucketbench.Wait, 0, 12),
				timing(bucketbench.Pause, 15),
			}},
		}},
		{Name: "runc", Iterations: 50, Runs: []bucketbench.Measured{
			{Threads: 2, Rate: math.NaN(), Commands: []bucketbench.Timing{timing("checkpoint", 0, 3), timing(bucketbench.Run, 0, 20)}},
		}},
	}
}

func TestTables(t *testing.T) {
	var b bytes.Buffer
	if err := bucketbench.Tables(&b, results()); err != nil {
		t.Fatal(err)
	}
	yamldoctest.Golden(t, "testdata/tables.txt", b.Bytes())
	for line := range strings.Lines(b.String()) {
		if strings.TrimRight(line, " \n") != strings.TrimSuffix(line, "\n") {
			t.Errorf("blanks at the end of %q", line)
		}
	}
}

func TestTablesOfNothing(t *testing.T) {
	var b bytes.Buffer
	if err := bucketbench.Tables(&b, nil); err != nil || !strings.Contains(b.String(), "SUMMARY") {
		t.Errorf("%v:\n%s", err, b.String())
	}
}

// TestTablesKeepTheirInput wants the caller's values left in their order.
func TestTablesKeepTheirInput(t *testing.T) {
	r := results()
	if err := bucketbench.Tables(&bytes.Buffer{}, r); err != nil {
		t.Fatal(err)
	}
	if c := r[1].Runs[0].Commands; c[0].Command != bucketbench.Delete || c[2].Seconds[0] != 0.1905 {
		t.Errorf("the input became %+v", c)
	}
}

func TestTablesFail(t *testing.T) {
	if err := bucketbench.Tables(full{}, results()); !errors.Is(err, errFull) {
		t.Errorf("error %v", err)
	}
}

var errFull = errors.New("no space left")

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errFull }

// TestCommandOf wants a command for every operation that Convert makes.
func TestCommandOf(t *testing.T) {
	want := map[string]string{
		"create": "run", "start": "run", "pause": "pause", "resume": "resume", "wait": "wait", "stop": "stop", "kill": "stop", "remove": "delete",
		"exec": "", "signal": "", "": "",
	}
	for operation, command := range want {
		if got := bucketbench.CommandOf(operation); got != command {
			t.Errorf("CommandOf(%q) = %q, want %q", operation, got, command)
		}
	}
}
