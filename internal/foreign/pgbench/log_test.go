package pgbench_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tare-bench/tare/internal/foreign/pgbench"
)

// counts are what a log says, without its times.
type counts struct {
	Transactions, Skipped, Failed int64
	Clients                       int
	Aggregated                    bool
}

func countsOf(l *pgbench.Log) counts {
	return counts{l.Transactions, l.Skipped, l.Failed, l.Clients, l.Aggregated}
}

// Logs that pgbench 15 wrote have as many transactions as it printed.
func TestLogs(t *testing.T) {
	for name, want := range map[string]counts{
		"15/select":  {Transactions: 240, Clients: 4},
		"15/limited": {Transactions: 125, Skipped: 175, Clients: 2},
		"15/retried": {Transactions: 110, Failed: 50, Clients: 4},
		"15/sampled": {Transactions: 91, Clients: 2},
		"15/agg":     {Transactions: 4670, Aggregated: true}, // without the last interval, which pgbench does not write
		"15/aggfail": {Transactions: 587, Failed: 21, Aggregated: true},
	} {
		t.Run(name, func(t *testing.T) {
			logs, _ := pgbench.SplitLogs(open(t, name).Files)
			if len(logs) != 1 {
				t.Fatalf("%d logs, want 1", len(logs))
			}
			l, err := logs[0].Read()
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(want, countsOf(l)); d != "" {
				t.Error(d)
			}
		})
	}
}

// The numbers of a log, by hand.
func TestLogNumbers(t *testing.T) {
	l := pgbench.NewLog()
	text := "0 1 1000 0 1700000001 900000\n1 1 3000 0 1700000002 100000 17\n0 2 skipped 0 1700000002 200000 5000\n" +
		"0 3 failed 0 1700000002 300000 0 3\n1 2 deadlock 0 1700000002 300001 0 3\n1 3 2000 1 1700000002 500000 1 2\n"
	if err := l.Read(strings.NewReader(text)); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(counts{Transactions: 3, Skipped: 1, Failed: 2, Clients: 2}, countsOf(l)); d != "" {
		t.Error(d)
	}
	for what, pair := range map[string][2]float64{
		"mean": {l.Mean(), 0.002}, "longest": {l.Max(), 0.003}, "shortest": {l.Min(), 0.001},
		"standard deviation": {l.StdDev(), math.Sqrt(2.0/3) / 1000}, "median": {l.Times.Percentile(50), 0.002},
		"span": {l.Last.Sub(l.First).Seconds(), 0.6},
	} {
		if math.Abs(pair[0]-pair[1]) > 1e-3*pair[1] {
			t.Errorf("%s = %v, want %v", what, pair[0], pair[1])
		}
	}
}

// An aggregated log of version 10 has fewer columns, and its sums of squares may be larger than any
// whole number here.
func TestAggregatedNumbers(t *testing.T) {
	l := pgbench.NewLog()
	text := "1700000000 2 3000 5000000 1000 2000 10 100 0 10 4\n1700000001 0 0 0 0 0 0 0 0 0 0\n" +
		"1700000002 1 3000 99999999999999999999 3000 3000\n"
	if err := l.Read(strings.NewReader(text)); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(counts{Transactions: 3, Skipped: 4, Aggregated: true}, countsOf(l)); d != "" {
		t.Error(d)
	}
	if l.Mean() != 0.002 || l.Max() != 0.003 || l.Min() != 0.001 {
		t.Errorf("mean %v, longest %v, shortest %v", l.Mean(), l.Max(), l.Min())
	}
}

func TestWrongLogs(t *testing.T) {
	good := "0 1 1000 0 1700000001 900000\n"
	for text, want := range map[string]string{
		good + "x\n":                                    `line 2: this is no line of pgbench's log: "x"`,
		good + "0 1 1000 0\n":                           `line 2: this is no line of pgbench's log: "0 1 1000 0"`,
		good + "0 1 10x0 0 1700000001 900000\n":         `line 2: this is no line of pgbench's log: "0 1 10x0 0 1700000001 900000"`,
		good + "0 - 1000 0 1700000001 900000\n":         `line 2: this is no line of pgbench's log: "0 - 1000 0 1700000001 900000"`,
		good + "0 skipped 1000 0 1700000001 900000\n":   `line 2: field 2 is no number`,
		good + "0 1 1000 0 1700000001 900000 1 2 3\n":   `line 2: 9 fields; a line of pgbench's log has 6 to 8`,
		good + "-1 1 1000 0 1700000001 900000\n":        `line 2: the client number -1`,
		good + "9999999 1 1000 0 1700000001 900000\n":   `line 2: the client number 9999999`,
		good + "0 1 1000 0 99999999999 900000\n":        `line 2: the time 99999999999.900000`,
		good + "0 1 1000 0 1700000001 1900000\n":        `line 2: the time 1700000001.1900000`,
		good + "1700000000 2 3000 5000000 1000 2000\n":  `line 2: an interval of an aggregated log among transactions`,
		"1700000000 2 3000 5000000 1000 2000\n" + good:  `line 2: a transaction in an aggregated log`,
		"1700000000 2 3000 5000000 1000 2000 1\n":       `line 1: 7 fields; a line of pgbench's aggregated log has 6, 10, 11 or 15 numbers`,
		"1700000000 -2 3000 5000000 1000 2000\n":        `line 1: a number is out of range`,
		good + strings.Repeat("1 ", 300_000) + "\n":     `line 2: it has more than 262144 bytes`,
		good + strings.Repeat("123456789", 20) + " 1\n": `line 2: this is no line of pgbench's log: "123456789123456789123456789123456789123456789123456789123456"…`,
	} {
		err := pgbench.NewLog().Read(strings.NewReader(text))
		if err == nil || err.Error() != want {
			t.Errorf("%.60q: error %v, want %s", text, err, want)
		}
	}
}

// A log may stop at any byte: pgbench was killed.
func TestCutLog(t *testing.T) {
	l := pgbench.NewLog()
	if err := l.Read(strings.NewReader("0 1 1000 0 1700000001 900000\n0 2 10")); err != nil || l.Transactions != 1 {
		t.Errorf("%d transactions, error %v", l.Transactions, err)
	}
}

func FuzzLog(f *testing.F) {
	f.Add("0 1 1000 0 1700000001 900000\n1 1 skipped 0 1700000002 100000 17 2\n")
	f.Add("1700000000 2 3000 5000000 1000 2000 10 100 0 10 4\n1700000001 0 0 0 0 0 0 0 0 0 0\n")
	f.Fuzz(func(t *testing.T, text string) {
		l := pgbench.NewLog()
		if l.Read(strings.NewReader(text)) != nil {
			return
		}
		trial, err := pgbench.Trial(nil, l)
		if err != nil {
			t.Fatal(err)
		}
		if (trial.Failed == "") != (l.Transactions > 0) {
			t.Errorf("%d transactions, and failed is %q", l.Transactions, trial.Failed)
		}
		for name, v := range trial.Values {
			if math.IsNaN(v) || math.IsInf(v, 0) {
				t.Errorf("%s = %v", name, v)
			}
		}
	})
}

// A million lines, as eight clients write them.
func BenchmarkLog(b *testing.B) {
	const lines = 1_000_000
	var text strings.Builder
	at, random := int64(1_700_000_000_000_000), uint64(1)
	for i := range lines {
		random = random*6364136223846793005 + 1442695040888963407
		at += int64(random>>60) + 5
		fmt.Fprintf(&text, "%d %d %d 0 %d %d\n", i%8, i/8, 80+random>>57, at/1e6, at%1e6)
	}
	b.SetBytes(int64(text.Len()))
	for b.Loop() {
		l := pgbench.NewLog()
		if err := l.Read(strings.NewReader(text.String())); err != nil || l.Transactions != lines {
			b.Fatal(l.Transactions, err)
		}
	}
	b.ReportMetric(b.Elapsed().Seconds()/float64(b.N), "s/million")
}
