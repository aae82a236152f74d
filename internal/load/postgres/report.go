package postgres

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/tare-bench/tare/internal/load"
	"github.com/tare-bench/tare/internal/load/client"
)

// The notes of a report.
const (
	NoteClosedLoop = "closed-loop"         // the times do not show queueing delay
	NoteRateMissed = "rate-missed"         // fewer transactions ended well than were due
	NoteFailed     = "failed-transactions" // the server has refused some
)

// An outcome is the result of one execution of a plan.
type outcome struct {
	plan    *plan
	workers *workers // which may be connected
	*round
}

// rate is the number of transactions per second that ended well within the time.
func (o *outcome) rate() float64 { return float64(o.tally.timely) / o.plan.time.Seconds() }

// failure returns an error if there is no useful result.
func (o *outcome) failure() error {
	if o.tally.good > 0 {
		return nil
	}
	for _, why := range o.tally.why {
		if why != nil {
			return fmt.Errorf("no transaction ended well: %w", why)
		}
	}
	return errTooShort
}

// errTooShort is the error of a load whose transactions all went on until its end.
var errTooShort = errors.New("no transaction ended within the time: choose a longer one")

func (o *outcome) report() (*load.Report, error) {
	r := load.NewReport(Name)
	r.Measured = o.plan.time.Seconds()
	t := &o.tally
	r.Values["rate"] = o.rate()
	r.Values["transactions"] = float64(t.good)
	r.Values["committed"], r.Values["delta"] = float64(t.committed), float64(t.delta)
	r.Values["refused"], r.Values["failed"] = float64(t.refused), float64(t.failures())
	for k := range kinds {
		r.Values["failed."+k.String()] = float64(t.failed[k])
		if t.why[k] != nil {
			r.Facts["failed."+k.String()] = t.why[k].Error()
		}
	}
	r.Values["client_cpu"] = max(0, o.cpu-o.busyWait).Seconds() / float64(o.threads) / max(o.sendTime, 1).Seconds()
	r.Values["cpu_each"] = max(0, o.cpu-o.busyWait).Seconds() / float64(max(1, t.begun))
	for i, one := range o.plan.script.statements {
		if len(o.plan.script.statements) > 1 {
			r.Values["stmt."+one.name+".p50"] = t.statements[i].Percentile(50)
		}
	}
	o.series(r)
	r.AddSlices("rate", o.slices)
	o.notes(r)
	o.facts(r, t.begun, o.sendTime)
	return r, errors.Join(Spread(r, "time", t.time), Spread(r, "connect", t.connect))
}

// series reports the seconds of the measured time one by one. Where no transaction ended, all is 0, and the 99th
// percentile also where fewer than a thousand did.
func (o *outcome) series(r *load.Report) {
	for i := range o.tally.seconds {
		s := &o.tally.seconds[i]
		r.AddToSeries("per_second.rate", float64(s.ended))
		r.AddToSeries("per_second.time.p50", s.percentile(50))
		r.AddToSeries("per_second.time.p99", s.percentile(99))
		r.AddToSeries("per_second.time.mean", s.sum.Seconds()/float64(max(1, s.ended)))
		r.AddToSeries("per_second.time.max", s.longest.Seconds())
	}
}

// facts reports how many transactions the server got in total, in what time, and from when on they
// count.
func (o *outcome) facts(r *load.Report, sent int64, span time.Duration) {
	r.Facts["script"] = o.plan.script.name
	r.Facts["tls"] = map[bool]string{false: "no", true: "yes"}[o.plan.tls]
	r.Facts["sent"] = strconv.FormatInt(sent, 10)
	r.Facts["counting"] = strconv.FormatInt(o.counting, 10)
	r.Facts["span"] = strconv.FormatFloat(span.Seconds(), 'f', -1, 64)
}

func (o *outcome) notes(r *load.Report) {
	if o.plan.rate > 0 {
		r.Values["offered"] = float64(o.plan.rate)
		if client.MissedShare(o.plan.times(), o.tally.time.Min(), o.tally.timely) > client.MaxMissed {
			r.Notes = append(r.Notes, NoteRateMissed)
		}
	} else {
		r.Notes = append(r.Notes, NoteClosedLoop)
	}
	if o.tally.failures() > 0 {
		r.Notes = append(r.Notes, NoteFailed)
	}
}

// MinTail is how many observations must lie beyond a percentile for it to be reported.
const MinTail = 10

// Percentiles lists the percentiles that are metrics.
func Percentiles() []float64 { return []float64{50, 90, 95, 99, 99.9} }

// PercentileName returns the name of the metric of a percentile.
func PercentileName(times string, p float64) string {
	return times + ".p" + strconv.FormatFloat(p, 'f', -1, 64)
}

// Spread reports the distribution of times, if there are any.
func Spread(r *load.Report, name string, h *load.Histogram) error {
	if h.Count() == 0 {
		return nil
	}
	r.Values[name+".min"], r.Values[name+".max"] = h.Min(), h.Percentile(100)
	r.Values[name+".mean"], r.Values[name+".stddev"] = h.Mean(), h.StdDev()
	for _, p := range Percentiles() {
		if p == 50 || float64(h.Count())*(100-p)/100 >= MinTail {
			r.Values[PercentileName(name, p)] = h.Percentile(p)
		}
	}
	d, err := h.Distribution()
	r.Distributions[name] = d
	return err
}
