package fio

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/foreign"
)

// pure and mixes are the patterns of which results are read.
func pure() []string  { return []string{"randread", "randwrite", "read", "write"} }
func mixes() []string { return []string{"randrw", "rw"} }

// fsync begins the names of the metrics of syncs.
const fsync = "disk.fsync"

// percentiles are those that are read, if at least minTail times are beyond: the largest of few times is one by
// chance.
func percentiles() []float64 { return []float64{50, 90, 99, 99.9} }

const minTail = 10

// trial makes a trial of a job.
func (j *Job) trial(global map[string]string) (foreign.Trial, error) {
	t := foreign.Trial{Levels: j.levels(global)}
	if ms := j.ran(); ms > 0 && ms < 1<<40 {
		t.Elapsed = time.Duration(ms) * time.Millisecond
	}
	if j.Error != 0 {
		t.Failed = fmt.Sprintf("fio ended with error %d: %v", j.Error, syscall.Errno(j.Error))
		return t, nil
	}
	sides := j.sides(global)
	if sides == nil {
		t.Failed = fmt.Sprintf("tare does not read fio's pattern %.40q", j.option(global, "rw"))
		return t, nil
	}
	for _, name := range slices.Sorted(maps.Keys(sides)) {
		if err := sides[name].addTo(&t, name); err != nil {
			return t, err
		}
	}
	if err := j.Sync.Latency.addTo(&t, fsync); err != nil {
		return t, err
	}
	if len(t.Values) == 0 {
		t.Failed = "no request completed"
	}
	return t, nil
}

// addTo gives a trial the values of a side, unless it had no request.
func (s *Side) addTo(t *foreign.Trial, name string) error {
	switch {
	case s.Requests <= 0 || s.IOPS <= 0:
		return nil
	case s.IOPS > MaxCount || s.Rate < 0 || s.Rate > 1<<60:
		return fmt.Errorf("%v requests and %v bytes per second", s.IOPS, s.Rate)
	}
	t.Set(name+".iops", s.IOPS)
	if s.Rate > 0 {
		t.Set(name+".rate", s.Rate)
	}
	if s.Latency.Percentiles == nil {
		if err := s.Completion.addTo(t, name+completion); err != nil {
			return err
		}
	}
	return s.Latency.addTo(t, name)
}

// completion follows the names of metrics that are of the time from the submission on.
const completion = ".clat"

// addTo gives a trial the times, and their distribution if fio told it.
func (l *Latency) addTo(t *foreign.Trial, name string) error {
	if l.N <= 0 {
		return nil
	}
	if l.N > MaxCount || l.Mean < 0 || l.Max < 0 || max(l.Mean, l.Max) > 1e18 {
		return fmt.Errorf("%d times with the mean %v ns and the largest %v ns", l.N, l.Mean, l.Max)
	}
	t.Set(name+".mean", l.Mean/1e9)
	t.Set(name+".max", l.Max/1e9)
	for _, p := range percentiles() {
		v, ok := l.Percentile(p)
		if ok && v < 0 {
			return errors.New("a percentile is below 0")
		}
		if ok && float64(l.N)*(100-p)/100 >= minTail {
			t.Set(name+".p"+strconv.FormatFloat(p, 'f', -1, 64), v)
		}
	}
	if len(l.Bins) == 0 {
		return nil
	}
	h, err := l.Histogram()
	if err != nil || h.Count() == 0 {
		return err
	}
	d, err := h.Distribution()
	t.Distributions = append(t.Distributions, bench.Distribution{Metric: name, HDR: string(d)})
	return err
}

// metrics are what can be read. Those of a single pattern have the names of the workload disk.
func metrics() (all []bench.Metric) {
	add := func(name, title, unit string, role bench.Role, doc string) {
		better := bench.Higher
		if unit == "s" {
			better = bench.Lower
		}
		all = append(all, bench.Metric{
			Name: name, Title: title, Unit: unit, Better: better, Role: role, Scale: bench.Ratio, Doc: doc,
		})
	}
	times := func(name, title, span string) {
		for _, p := range percentiles() {
			text := strconv.FormatFloat(p, 'f', -1, 64)
			role := bench.Detail
			if name == fsync && p == 50 {
				role = bench.Primary
			}
			add(name+".p"+text, title+", p"+text, "s", role, span+": percentile "+text+".")
		}
		add(name+".mean", title+", mean", "s", bench.Detail, span+": mean.")
		add(name+".max", title+", longest", "s", bench.Detail, span+": the longest.")
	}
	for _, p := range patterns() {
		iops, rate := bench.Primary, bench.Detail
		if p.sequential {
			iops, rate = rate, iops
		}
		add(p.name+".iops", p.title, "1/s", iops, "Requests of "+p.title+" per second.")
		add(p.name+".rate", p.title+", bytes", "B/s", rate, "Bytes of "+p.title+" per second.")
		times(p.name, p.title, "From before the submission of a request to its completion, of "+p.title)
		times(p.name+completion, p.title+", from submission",
			"From the submission of a request to its completion, of "+p.title)
	}
	times(fsync, "fsync", "From the call of fsync or fdatasync to its return")
	return all
}

// A pattern is what a job, or one side of it, does.
type pattern struct {
	name, title string
	sequential  bool
}

func patterns() []pattern {
	return []pattern{
		{"disk.randread", "random reads", false},
		{"disk.randwrite", "random writes", false},
		{"disk.read", "sequential reads", true},
		{"disk.write", "sequential writes", true},
		{"disk.randrw.read", "random reads among writes", false},
		{"disk.randrw.write", "random writes among reads", false},
		{"disk.randrw", "random reads and writes", false},
		{"disk.rw.read", "sequential reads among writes", true},
		{"disk.rw.write", "sequential writes among reads", true},
		{"disk.rw", "sequential reads and writes", true},
	}
}
