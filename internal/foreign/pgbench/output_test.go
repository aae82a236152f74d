package pgbench_test

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tare-bench/tare/internal/foreign"
	"github.com/tare-bench/tare/internal/foreign/pgbench"
)

// open opens files below testdata.
func open(t testing.TB, names ...string) *foreign.Input {
	t.Helper()
	for i := range names {
		names[i] = filepath.Join("testdata", names[i])
	}
	in, err := foreign.Open(names, strings.NewReader(""))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := in.Close(); err != nil {
			t.Error(err)
		}
	})
	return in
}

// Outputs of several versions. Those of 15 are pgbench's own; the others were written as those
// versions print them.
func TestOutputs(t *testing.T) {
	nan := math.NaN()
	unknown := pgbench.Output{Mean: nan, StdDev: nan, Lag: nan, Connect: nan, ConnectAll: nan, Rate: nan}
	for name, edit := range map[string]func(o *pgbench.Output){
		"old/9.0.txt": func(o *pgbench.Output) {
			o.Script, o.Scale, o.Clients, o.Threads, o.Mode = "tpcb-like", 10, 10, 2, "simple"
			o.PerClient, o.Transactions, o.Rate, o.Line = 1000, 10_000, 85.296346, 2
		},
		"old/9.4.txt": func(o *pgbench.Output) {
			o.Script, o.Scale, o.Clients, o.Threads, o.Mode = "select-only", 100, 16, 4, "prepared"
			o.Duration, o.Transactions, o.Mean, o.StdDev = time.Minute, 598_012, 0.001604, 0.000871
			o.Lag, o.Limited, o.Rate, o.Line = 0.000206, true, 9969.102233, 2
		},
		"old/9.6.txt": func(o *pgbench.Output) {
			o.Script, o.Scale, o.Clients, o.Threads, o.Mode = "tpcb-like", 10, 8, 2, "simple"
			o.Duration, o.Transactions, o.Mean, o.StdDev = 10*time.Second, 6103, 0.013104, 0.008402
			o.Rate, o.Line = 610.032114, 3
		},
		"old/13.txt": func(o *pgbench.Output) {
			o.Script, o.Scale, o.Clients, o.Threads, o.Mode = "nobranch", 50, 4, 4, "extended"
			o.Duration, o.Transactions, o.Mean, o.Rate, o.Line = 30*time.Second, 20_101, 0.00597, 670.102938, 2
		},
		"old/14.txt": func(o *pgbench.Output) {
			o.Script, o.Scale, o.Clients, o.Threads, o.Mode = "simple-update", 20, 4, 4, "simple"
			o.Duration, o.Transactions, o.Mean, o.StdDev = 30*time.Second, 30_111, 0.003985, 0.001022
			o.ConnectAll, o.Rate, o.Version, o.Line = 0.008101, 1003.861112, "14.5, server 13.8", 2
		},
		"old/18.txt": func(o *pgbench.Output) {
			o.Script, o.Scale, o.Clients, o.Threads, o.Mode = "tpcb-like", 50, 4, 2, "prepared"
			o.Duration, o.Transactions, o.Mean, o.StdDev = 30*time.Second, 1201, 0.019841, 0.00411
			o.ConnectAll, o.Rate, o.Version, o.Line = 0.006021, 201.508123, "18.1", 4
			o.Aborted = `client 1 script 0 aborted in command 4 query 0: ERROR:  could not extend file "base/5/16412": ` +
				`No space left on device`
		},
		"15/conn/out.txt": func(o *pgbench.Output) {
			o.Script, o.Scale, o.Clients, o.Threads, o.Mode = "select-only", 2, 2, 1, "simple"
			o.PerClient, o.Transactions, o.Mean, o.Connect = 100, 200, 0.019017, 0.009175
			o.Reconnects, o.Rate, o.Version, o.Line = true, 105.169502, "15.18", 2
		},
		"15/abort/out.txt": func(o *pgbench.Output) {
			o.Script, o.Scale, o.Clients, o.Threads, o.Mode = "several", 1, 2, 1, "simple"
			o.PerClient, o.Version, o.Line = 10, "15.18", 4
			o.Aborted = "client 1 script 1 aborted in command 0 query 0: ERROR:  division by zero"
		},
		"15/retried/out.txt": func(o *pgbench.Output) { // the mean is of failed transactions too
			o.Script, o.Scale, o.Clients, o.Threads, o.Mode = "serial", 1, 4, 1, "simple"
			o.PerClient, o.Transactions, o.Failed, o.Retries = 40, 110, 50, 74
			o.ConnectAll, o.Rate, o.Version, o.Line = nan, nan, "15.18", 2
		},
	} {
		t.Run(name, func(t *testing.T) {
			in := open(t, name)
			got, err := pgbench.ReadOutputs(&in.Files[0])
			if err != nil || len(got) != 1 {
				t.Fatalf("ReadOutputs = %d results, %v; want 1", len(got), err)
			}
			want := unknown
			want.File = in.Files[0].Name
			edit(&want)
			ignore := cmpopts.IgnoreUnexported(pgbench.Output{})
			opts := cmp.Options{ignore, cmpopts.EquateNaNs(), cmpopts.EquateApprox(0, 1e-9)}
			if name == "15/retried/out.txt" { // differs from time to time that the file is made
				opts = append(opts, cmpopts.IgnoreFields(pgbench.Output{}, "ConnectAll", "Rate", "Retries"))
			}
			if d := cmp.Diff(&want, got[0], opts); d != "" {
				t.Error(d)
			}
		})
	}
}

// Several results in one file, with what is not of pgbench between them, and one that was cut off.
func TestOutputsOfALoop(t *testing.T) {
	one, err := os.ReadFile("testdata/old/9.6.txt")
	if err != nil {
		t.Fatal(err)
	}
	text := "round 1\n" + string(one) + "\nround 2: rate = high\n" + string(one) + "transaction type: SELECT only\nscaling factor: 3\n"
	f := foreign.NewFile("loop.txt", text)
	got, err := pgbench.ReadOutputs(&f)
	if err != nil || len(got) != 3 {
		t.Fatalf("ReadOutputs = %d results, %v; want 3", len(got), err)
	}
	if got[0].Rate != got[1].Rate || got[1].Line <= got[0].Line || got[0].Aborted != "" {
		t.Errorf("the first two are %+v and %+v", got[0], got[1])
	}
	if got[2].Aborted != "the output ends before the rate" || got[2].Scale != 3 {
		t.Errorf("the last is %+v", got[2])
	}
}

// The steps of making tables.
func TestInit(t *testing.T) {
	in := open(t, "15/init.txt")
	got, err := pgbench.ReadOutputs(&in.Files[0])
	if err != nil || len(got) != 1 {
		t.Fatalf("ReadOutputs = %d results, %v; want 1", len(got), err)
	}
	want := []pgbench.Step{
		{Name: "all", Time: 0.36},
		{Name: "drop tables", Time: 0.01},
		{Name: "create tables", Time: 0.01},
		{Name: "client-side generate", Time: 0.18},
		{Name: "vacuum", Time: 0.08},
		{Name: "primary keys", Time: 0.09},
	}
	if d := cmp.Diff(want, got[0].Init); d != "" {
		t.Error(d)
	}
}

func TestWrongOutputs(t *testing.T) {
	for text, want := range map[string]string{
		"transaction type: x\nscaling factor: ten\n":          `f.txt:2: "ten" is no scaling factor`,
		"transaction type: x\nnumber of clients: -4\n":        `f.txt:2: "-4" is no number of clients`,
		"transaction type: x\ntps = fast\n":                   `f.txt:2: "fast" is no rate`,
		"transaction type: x\ntps = -1 (including)\n":         `f.txt:2: "-1 (including)" is no rate`,
		"transaction type: x\ntps = NaN (including)\n":        `f.txt:2: "NaN (including)" is no rate`,
		"transaction type: x\nlatency average = x\n":          `f.txt:2: "x" is no latency average`,
		"transaction type: x\nduration: 1e9 s\n":              `f.txt:2: "1e9 s" is no duration`,
		"x\n" + strings.Repeat("y", foreign.MaxLine+1) + "\n": "f.txt:2: the line has more than 1048576 bytes",
	} {
		f := foreign.NewFile("f.txt", text)
		if _, err := pgbench.ReadOutputs(&f); err == nil || err.Error() != want {
			t.Errorf("%.40q: error %v, want %s", text, err, want)
		}
	}
}

func FuzzOutputs(f *testing.F) {
	for _, name := range []string{"old/9.0.txt", "old/9.4.txt", "old/18.txt", "15/multi/out.txt", "15/init.txt"} {
		b, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(b))
	}
	f.Fuzz(func(t *testing.T, text string) {
		file := foreign.NewFile("f", text)
		all, err := pgbench.ReadOutputs(&file)
		if err != nil {
			return
		}
		for _, o := range all {
			trial, err := pgbench.Trial(o, nil)
			if err != nil {
				t.Fatal(err)
			}
			for name, v := range trial.Values {
				if math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
					t.Errorf("%s = %v", name, v)
				}
			}
		}
	})
}
