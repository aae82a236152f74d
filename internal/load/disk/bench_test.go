package disk

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"testing"
	"time"
)

// benchSize and benchTime are of each side's turn, of which there are mostTurns
// at most: fio takes its time to begin.
const (
	benchSize = 128 << 20
	benchTime = 250 * time.Millisecond
	mostTurns = 25
)

// BenchmarkBesideFIO writes blocks of 4 KiB at random, the load and fio by turns
// on the same file with the same depth, on one CPU that both share, and reports the ratio
// of their rates: the median over the turns.
func BenchmarkBesideFIO(b *testing.B) {
	if _, err := exec.LookPath("fio"); err != nil {
		if os.Getenv("CI") != "" {
			b.Fatal(err)
		}
		b.Skip("install fio to compare with it")
	}
	for _, q := range queues() {
		if q.name == Threads || q.check() != nil {
			continue
		}
		for _, write := range []bool{true, false} {
			name := "randread"
			if write {
				name = "randwrite"
			}
			b.Run(q.name+"/"+name, func(b *testing.B) { compareWithFIO(b, q, Pattern{Name: name, Random: true, Write: write}) })
		}
	}
}

func compareWithFIO(b *testing.B, q queue, p Pattern) {
	plan := Plan{Dir: b.TempDir(), Size: benchSize, Block: 4096, Depth: 32, Direct: Auto, Time: benchTime}
	f, err := create(plan)
	if err != nil {
		b.Fatal(err)
	}
	defer f.remove()
	if err := f.fill(plan.Size); err != nil {
		b.Fatal(err)
	}
	if err := f.settle(); err != nil {
		b.Fatal(err)
	}
	var ratios []float64
	for range min(b.N, mostTurns) {
		t := newTally(plan)
		if err := f.run(p, plan, q, t); err != nil {
			b.Fatal(err)
		}
		ratios = append(ratios, t.rate()/fioRate(b, f, plan, q, p))
	}
	slices.Sort(ratios)
	b.ReportMetric(ratios[len(ratios)/2], "×fio")
	b.ReportMetric(0, "ns/op") // it is how long a turn takes
}

// fioRate is how many requests fio gets through in a second.
func fioRate(b *testing.B, f *file, plan Plan, q queue, p Pattern) float64 {
	b.Helper()
	direct := "0"
	if f.direct {
		direct = "1"
	}
	out, err := exec.Command("fio", "--name=a", "--filename="+f.path, "--rw="+p.Name, "--bs=4096", "--ioengine="+q.name,
		"--iodepth="+strconv.Itoa(plan.Depth), "--direct="+direct, "--size="+strconv.FormatInt(plan.Size, 10),
		"--overwrite=1", "--norandommap=1", "--thread=1", "--time_based=1", fmt.Sprintf("--runtime=%dus",
			plan.Time.Microseconds()),
		fmt.Sprintf("--ramp_time=%dus", plan.Ramp().Microseconds()), "--output-format=json").Output()
	if err != nil {
		b.Fatalf("fio: %v: %s", err, out)
	}
	var r struct {
		Jobs []struct{ Read, Write struct{ IOPS float64 } }
	}
	if err := json.Unmarshal(out, &r); err != nil || len(r.Jobs) != 1 {
		b.Fatalf("fio: %v: %s", err, out)
	}
	if p.Write {
		return r.Jobs[0].Write.IOPS
	}
	return r.Jobs[0].Read.IOPS
}
