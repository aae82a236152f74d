package pgbench

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/foreign"
)

// Conditions are what pgbench's results are sorted by, whether they vary or not.
func Conditions() []string { return []string{"script", "scale", "clients"} }

// Trial makes a trial of what pgbench printed and of its log; either may be nil.
func Trial(o *Output, l *Log) (foreign.Trial, error) {
	var t foreign.Trial
	if o != nil {
		t = o.trial()
	} else {
		t.Levels = []bench.Label{
			{Key: "script", Value: foreign.Unknown},
			{Key: "scale", Value: foreign.Unknown},
			{Key: "clients", Value: number10(l.Clients)},
		}
	}
	if l == nil || t.Failed != "" {
		return t, nil
	}
	return t, l.AddTo(&t)
}

// trial makes a trial of what pgbench printed.
func (o *Output) trial() foreign.Trial {
	script := o.Script
	if script == "" {
		script = foreign.Unknown
	}
	t := foreign.Trial{Where: o.Where(), Elapsed: o.elapsed(), Failed: o.Aborted}
	t.Levels = []bench.Label{
		{Key: "script", Value: script},
		{Key: "scale", Value: number10(o.Scale)},
		{Key: "clients", Value: number10(o.Clients)},
		{Key: "queries", Value: o.Mode},
	}
	if o.Reconnects {
		t.Levels = append(t.Levels, bench.Label{Key: "connect", Value: "each"})
	}
	if o.Limited {
		t.Levels = append(t.Levels, bench.Label{Key: "rate", Value: "limited"})
	}
	if o.Version != "" {
		t.Levels = append(t.Levels, bench.Label{Key: "pgbench", Value: o.Version})
	}
	for name, v := range map[string]float64{
		"rate": o.Rate, "time.mean": o.Mean, "time.stddev": o.StdDev, "lag": o.Lag, "connect.mean": o.Connect,
		"connect.all": o.ConnectAll, "transactions": float64(o.Transactions), "skipped": float64(o.Skipped),
		"failed": float64(o.Failed), "retries": float64(o.Retries),
	} {
		Put(&t, name, v) // unless it is not known
	}
	if o.Rate == 0 && t.Failed == "" {
		t.Failed = "no transaction ended well"
	}
	return t
}

// number10 writes a number that is known if it is not 0.
func number10(n int) string {
	if n == 0 {
		return foreign.Unknown
	}
	return strconv.Itoa(n)
}

// elapsed is how long pgbench ran.
func (o *Output) elapsed() time.Duration {
	if o.Duration > 0 || !(o.Rate > 0) {
		return o.Duration
	}
	seconds := min(float64(o.Transactions)/o.Rate, 1e8)
	return time.Duration(seconds * float64(time.Second))
}

// InitTrial makes a trial of what pgbench -i printed.
func InitTrial(o *Output) foreign.Trial {
	t := foreign.Trial{Where: o.Where(), Levels: []bench.Label{{Key: "scale", Value: foreign.Unknown}}}
	for _, s := range o.Init {
		Put(&t, initMetric(s.Name), s.Time)
		if s.Name == "all" {
			t.Elapsed = time.Duration(s.Time * float64(time.Second))
		}
	}
	return t
}

// minTail is how many transactions must lie beyond a percentile, as in tare's own measurements.
const minTail = 10

// AddTo adds to a trial what only the log tells. What pgbench printed is of all transactions, and
// those in the log may be a part of them; but it printed only three decimals of milliseconds.
func (l *Log) AddTo(t *foreign.Trial) error {
	if l.Transactions == 0 {
		t.Failed = "the log has no transaction that ended well"
		return nil
	}
	t.Began = l.First.UTC()
	if t.Elapsed == 0 {
		t.Elapsed = l.Span()
	}
	all := float64(l.Transactions)
	printed, _ := Get(t, "transactions")
	for name, v := range map[string]float64{
		"transactions": all, "rate": all / t.Elapsed.Seconds(), "skipped": float64(l.Skipped), "failed": float64(l.Failed),
		"time.max": l.Max(), "time.mean": l.Mean(), "time.stddev": l.StdDev(),
	} {
		_, known := Get(t, name)
		if exact := strings.HasPrefix(name, "time.") && printed == all; !known || exact {
			Put(t, name, v)
		}
	}
	t.Series = append(t.Series, l.perSecond()...)
	if l.Aggregated {
		return nil
	}
	for _, p := range Percentiles() {
		if p == 50 || all*(100-p)/100 >= minTail {
			Put(t, fmt.Sprintf("time.p%v", p), l.Times.Percentile(p))
		}
	}
	d, err := l.Times.Distribution()
	if err != nil {
		return err
	}
	t.Distributions = append(t.Distributions, bench.Distribution{Metric: part + "time", HDR: string(d)})
	return nil
}

// perSecond are the log's seconds in order of time: how many transactions ended in each, and the mean and
// the longest of their times; 0 where none ended. An aggregated log has its intervals in their place. There
// are none if that is too much to keep, or if the length of its only interval is unknown.
func (l *Log) perSecond() []bench.Series {
	const columns = 3
	all := slices.Sorted(maps.Keys(l.seconds))
	length := int64(1)
	if l.Aggregated {
		length = l.interval
	}
	const most = bench.MaxSeriesValues / columns
	if len(all) == 0 || len(all) > most || length == 0 || (all[len(all)-1]-all[0])/length >= most {
		return nil
	}
	rate := bench.Series{Metric: PerSecond("rate")}
	mean := bench.Series{Metric: PerSecond("time.mean")}
	longest := bench.Series{Metric: PerSecond("time.max")}
	add := func(n, average, most float64) {
		rate.Values, mean.Values = append(rate.Values, n), append(mean.Values, average)
		longest.Values = append(longest.Values, most)
	}
	for i, at := range all {
		for silent := at - length; i > 0 && silent > all[i-1]; silent -= length { // nothing ended in it
			add(0, 0, 0)
		}
		s := l.seconds[at]
		add(float64(s.n)/float64(length), s.sum/float64(s.n)/1e6, s.max/1e6)
	}
	if len(rate.Values) > most { // the intervals of threads began at different times
		return nil
	}
	return []bench.Series{rate, mean, longest}
}
