package cpu

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tare-bench/tare/internal/load/loadtest"
)

func TestRun(t *testing.T) {
	r, err := Run(loadtest.Args("time=20ms", "threads=3", "kernels=sort prime"))
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Values) != 7 || r.Facts[FactThreads] != "3" {
		t.Errorf("%+v", r)
	}
	for _, name := range []string{Single, All} {
		mean := math.Sqrt(r.Values[name+".sort"] * r.Values[name+".prime"])
		if got := r.Values[name]; got <= 0 || math.Abs(got/mean-1) > 1e-9 {
			t.Errorf("%s is %v, want the geometric mean of its kernels, %v", name, got, mean)
		}
	}
}

// Where there is one thread, both scores are of its one segment: they differ only in
// what delayed it while it had its CPU.
func TestOneThread(t *testing.T) {
	r, err := Run(loadtest.Args("time=20ms", "threads=1", "kernels=sort prime"))
	if err != nil {
		t.Fatal(err)
	}
	ratio := r.Values[All] / r.Values[Single]
	for _, kernel := range []string{".sort", ".prime"} {
		if one, all := r.Values[Single+kernel], r.Values[All+kernel]; one <= 0 || math.Abs(all/one/ratio-1) > 1e-9 {
			t.Errorf("%s: %v on one thread, %v on all; the scores differ by %v", kernel, one, all, ratio)
		}
	}
	if len(r.Values) != 7 || r.Values[SingleDone] != r.Values[All] {
		t.Errorf("%v", r.Values)
	}
}

// What slows a CPU down now and then, for a quarter of the time, is in what got done,
// and in no other score of one thread.
func TestBursts(t *testing.T) {
	chunks := 0
	disturbed := kernel{"disturbed", func() func() uint64 {
		return func() uint64 {
			spin := sliceTime / 10
			if chunks++; chunks%30 == 0 {
				spin = 10 * spin
			}
			for began := threadTime(); threadTime()-began < spin; { // which has the CPU all the while
			}
			return 1
		}
	}, 1}
	c := newPool(nil, []kernel{disturbed}, 1)
	c.shortest[0] = sliceTime
	segments, _, err := c.work(1, 100*sliceTime)
	if err != nil {
		t.Fatal(err)
	}
	undisturbed, done := mean(rates(segments, segment.cpuShare)), mean(rates(segments, segment.computeShare))
	had := segments[0].cpuShare()
	if speed := undisturbed / had; speed < 8e3 || speed > 10.1e3 {
		t.Errorf("the speed is %v operations per second, want some 10,000", speed)
	}
	if share := done / undisturbed; share > 0.85 {
		t.Errorf("got done %v of what the speed says, want at most 0.85", share)
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
	c := newPool(nil, []kernel{k}, 1)
	if err := c.warm(time.Millisecond); err == nil ||
		!strings.Contains(err.Error(), "adding: the answer is 3 but should be 4") {
		t.Errorf("warm-up: %v", err)
	}
	c.shortest[0] = time.Millisecond
	if _, _, err := c.work(1, time.Millisecond); err == nil || !strings.Contains(err.Error(), "adding") {
		t.Errorf("work: %v", err)
	}
}

// A thread that waits loses the time by both accounts, and the work of each kernel
// is spread over the whole segment.
func TestSpell(t *testing.T) {
	naps := 0
	nap := kernel{"nap", func() func() uint64 {
		return func() uint64 { naps++; time.Sleep(2 * time.Millisecond); return 1 }
	}, 1}
	c := newPool(nil, append(kernels()[:2:2], nap), 1)
	for i := range c.shortest {
		c.shortest[i] = time.Millisecond
	}
	segments, _, err := c.work(1, 40*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	s := segments[0]
	for i, p := range s.rates {
		if p.chunks < 2 || p.operations != 1 || p.undisturbed <= 0 {
			t.Errorf("kernel %d: %+v", i, p)
		}
	}
	if s.wall < 40*time.Millisecond || s.rates[2].chunks != naps || s.rates[2].undisturbed < 2*time.Millisecond {
		t.Errorf("%+v after %d naps", s, naps)
	}
	if slept := time.Duration(naps) * 2 * time.Millisecond; s.cpu <= 0 || s.cpu > s.wall-slept {
		t.Errorf("had a CPU for %s of %s, and slept for %s", s.cpu, s.wall, slept)
	}
}

// A thread that stood still does not make up for it by turns of one chunk.
func TestStoodStill(t *testing.T) {
	const still = 20 * sliceTime
	turns, last := 0, -1
	var all []kernel
	for i := range 2 {
		all = append(all, kernel{"spin", func() func() uint64 {
			return func() uint64 {
				if i != last {
					turns, last = turns+1, i
				}
				if turns == 1 {
					time.Sleep(still)
				}
				for began := time.Now(); time.Since(began) < sliceTime/50; {
				}
				return 1
			}
		}, 1})
	}
	c := newPool(nil, all, 1)
	c.shortest[0], c.shortest[1] = sliceTime, sliceTime
	segments, _, err := c.work(1, 2*still)
	if err != nil {
		t.Fatal(err)
	}
	if most := int((segments[0].wall-still)/sliceTime) + 1 + len(all); turns > most {
		t.Errorf("%d turns in %v, of which it stood still for %v: want at most %d", turns, segments[0].wall, still, most)
	}
}

// Time that was lost counts for all kernels alike, whichever it hit; time in which
// the CPU was slow counts only for what got done.
func TestRates(t *testing.T) {
	const ms = time.Millisecond
	kernelRates := []kernelRate{{2, 10, ms}, {1, 10, ms}}
	for _, test := range []struct {
		name      string
		segments  []segment
		had, done []float64
	}{
		{"nothing lost", []segment{{kernelRates, 20 * ms, 20 * ms}}, []float64{2000, 1000}, []float64{2000, 1000}},
		{"stopped for half of the time", []segment{{kernelRates, 40 * ms, 20 * ms}}, []float64{1000, 500}, []float64{1000, 500}},
		{"a slow CPU", []segment{{kernelRates, 40 * ms, 40 * ms}}, []float64{2000, 1000}, []float64{1000, 500}},
		{"two threads, one stopped", []segment{{kernelRates, 20 * ms, 20 * ms}, {kernelRates, 40 * ms, 20 * ms}}, []float64{3000, 1500}, []float64{3000, 1500}},
		{"clocks that differ a little", []segment{{kernelRates, 20 * ms, 21 * ms}}, []float64{2000, 1000}, []float64{2000, 1000}},
	} {
		if diff := cmp.Diff(test.had, rates(test.segments, segment.cpuShare), cmpopts.EquateApprox(1e-9, 0)); diff != "" {
			t.Errorf("%s: with a CPU (-want +got):\n%s", test.name, diff)
		}
		if diff := cmp.Diff(test.done, rates(test.segments, segment.computeShare),
			cmpopts.EquateApprox(1e-9, 0)); diff != "" {
			t.Errorf("%s: done (-want +got):\n%s", test.name, diff)
		}
	}
}

// A thread with a quota, in whatever part of its work a segment begins, gets in a segment of whole periods
// exactly what the quota gives. In other times it gets less, or more.
func TestWholePeriods(t *testing.T) {
	const ms = time.Millisecond
	for share, want := range map[time.Duration]time.Duration{
		9 * ms: 9 * ms, 99 * ms: 99 * ms, 135 * ms: 100 * ms, 450 * ms: 500 * ms, 900 * ms: 900 * ms, 1800 * ms: 1800 * ms,
	} {
		if got := wholePeriods(share); got != want {
			t.Errorf("%v becomes %v, want %v", share, got, want)
		}
	}
	for _, quota := range []time.Duration{20 * ms, 50 * ms, 80 * ms} {
		want := quota.Seconds() / quotaPeriod.Seconds()
		if got := quotaShare(wholePeriods(450*ms), quota); math.Abs(got/want-1) > 1e-9 {
			t.Errorf("a quota of %v: a share of %.4f in whole periods, want %.4f", quota, got, want)
		}
		if got := quotaShare(450*ms, quota); math.Abs(got/want-1) < 0.005 {
			t.Errorf("a quota of %v: a share of %.4f in another time is right too, so this tests nothing", quota, got)
		}
	}
}

// quotaShare is the mean share of the time that a thread has a CPU in segments of a length, which begin
// anywhere in its work and end when it works again.
func quotaShare(share, quota time.Duration) float64 {
	const step = 100 * time.Microsecond
	total, n := 0.0, 0
	for begin := step / 2; begin < quota; begin += step {
		end := begin + share
		whole, rest := end/quotaPeriod, end%quotaPeriod
		if rest >= quota { // it stands still until the next period
			whole, rest = whole+1, 0
		}
		worked := quota*whole + rest - begin
		total += worked.Seconds() / (whole*quotaPeriod + rest - begin).Seconds()
		n++
	}
	return total / float64(n)
}
