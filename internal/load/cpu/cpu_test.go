package cpu

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/tare-bench/tare/internal/load/loadtest"
)

func TestRun(t *testing.T) {
	r, err := Run(loadtest.Args("time=20ms", "threads=3", "kernels=sort prime"))
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Values) != 6 || r.Facts[FactThreads] != "3" {
		t.Errorf("%+v", r)
	}
	for _, name := range []string{Single, All} {
		mean := math.Sqrt(r.Values[name+".sort"] * r.Values[name+".prime"])
		if got := r.Values[name]; got <= 0 || math.Abs(got/mean-1) > 1e-9 {
			t.Errorf("%s is %v, want the geometric mean of its kernels, %v", name, got, mean)
		}
	}
}

// One thread and all threads are the same where there is one.
func TestOneThread(t *testing.T) {
	r, err := Run(loadtest.Args("time=20ms", "threads=1", "kernels=sort prime"))
	if err != nil {
		t.Fatal(err)
	}
	for _, kernel := range []string{"", ".sort", ".prime"} {
		if one, all := r.Values[Single+kernel], r.Values[All+kernel]; one <= 0 || one != all {
			t.Errorf("%s: %v on one thread, %v on all", kernel, one, all)
		}
	}
	if len(r.Values) != 6 {
		t.Errorf("%v", r.Values)
	}
}

func TestOptions(t *testing.T) {
	for words, want := range map[string]string{
		"time=1ns":          "time=1ns: want a duration from 10ms to 10m0s",
		"threads=0":         "threads=0: want a whole number from 1 to 1024",
		"threads=many":      "threads=many: want a whole number",
		"kernels=sort,x":    `no kernel "x"`,
		"kernels=sort,sort": "each once",
		"kernels=":          "want some of integer",
		"speed=1":           `no option "speed"`,
	} {
		if err := Check(loadtest.Args(words)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", words, err, want)
		}
	}
	if err := Check(loadtest.Args("threads=all", "kernels=integer,vector")); err != nil {
		t.Error(err)
	}
}

// A wrong answer is told, with what and how.
func TestWrongAnswer(t *testing.T) {
	k := kernel{"adding", func() func() uint64 { return func() uint64 { return 3 } }, 4}
	c := newCrew(k, 1)
	if err := c.warm(time.Millisecond); err == nil || !strings.Contains(err.Error(), "adding: the answer is 3, and should be 4") {
		t.Errorf("warm-up: %v", err)
	}
	c.quick = time.Millisecond
	if _, err := c.work(1, time.Millisecond); err == nil || !strings.Contains(err.Error(), "adding") {
		t.Errorf("work: %v", err)
	}
}

// Time that was lost is spread over the kernels, whichever it hit.
func TestRates(t *testing.T) {
	const ms = time.Millisecond
	smooth := spell{operations: 2, chunks: 10, smooth: ms, elapsed: 10 * ms}
	slower := spell{operations: 1, chunks: 10, smooth: ms, elapsed: 10 * ms}
	hit := func(s spell, lost time.Duration) spell { s.elapsed += lost; return s }
	for _, test := range []struct {
		name string
		each [][]spell // by kernel and thread
		want []float64
	}{
		{"nothing lost", [][]spell{{smooth}, {slower}}, []float64{2000, 1000}},
		{"the first was hit", [][]spell{{hit(smooth, 20*ms)}, {slower}}, []float64{1000, 500}},
		{"the second was hit", [][]spell{{smooth}, {hit(slower, 20*ms)}}, []float64{1000, 500}},
		{"two threads, one of them hit", [][]spell{{smooth, hit(smooth, 20*ms)}, {slower, slower}}, []float64{3000, 1500}},
	} {
		for i, got := range rates(test.each) {
			if math.Abs(got-test.want[i]) > 1e-6 {
				t.Errorf("%s: kernel %d has %v operations/s, want %v", test.name, i, got, test.want[i])
			}
		}
	}
}
