package http

import (
	"maps"
	"strconv"
	"time"

	"github.com/tare-bench/tare/internal/load"
	"github.com/tare-bench/tare/internal/load/client"
)

// The notes of a report.
const (
	NoteClosedLoop = "closed-loop"     // the times do not show queueing delay
	NoteRateMissed = "rate-missed"     // there were fewer good answers than requests due
	NoteFailed     = "failed-requests" // some requests failed
)

func (o *outcome) report() (*load.Report, error) {
	r := load.NewReport(Name)
	t := &o.tally
	maps.Copy(r.Values, map[string]float64{
		"http.rate":       o.median(func(s speed) float64 { return s.rate }),
		"http.transfer":   o.median(func(s speed) float64 { return s.transfer }),
		"http.requests":   float64(t.good + t.failures()),
		"http.bytes":      float64(t.bytes),
		"http.document":   float64(t.length),
		"http.elapsed":    o.elapsed.Seconds(),
		"http.failed":     float64(t.failures()),
		"http.client_cpu": o.cpu.Seconds() / max(o.sendTime, 1).Seconds(),
	})
	for k := range kinds {
		r.Values["http.failed."+k.String()] = float64(t.failed[k])
	}
	o.notes(r)
	for name, h := range map[string]*load.Histogram{
		"http.time": t.total, "http.first_byte": t.first, "http.connect": t.connect, "http.processing": t.process,
	} {
		if err := spread(r, name, h); err != nil {
			return nil, err
		}
	}
	o.facts(r, o.sent, o.sendTime)
	r.Measured = o.elapsed.Seconds()
	r.AddSlices("http.rate", o.slices)
	return r, nil
}

// facts reports how many requests the server got in total, and in what time.
func (*outcome) facts(r *load.Report, sent int64, span time.Duration) {
	r.Facts["sent"] = strconv.FormatInt(sent, 10)
	r.Facts["span"] = strconv.FormatFloat(span.Seconds(), 'f', -1, 64)
}

func (o *outcome) notes(r *load.Report) {
	if o.plan.open() {
		r.Values["http.offered"] = float64(o.plan.Rate)
		if o.missedShare(o.tally.total.Min()) > client.MaxMissed {
			r.Notes = append(r.Notes, NoteRateMissed)
		}
	} else {
		r.Notes = append(r.Notes, NoteClosedLoop)
	}
	if o.tally.failures() > 0 {
		r.Notes = append(r.Notes, NoteFailed)
	}
}

// missedShare is the share of the due requests that got no good answer before the end of the
// time. grace is what an answer may take, in seconds.
func (o *outcome) missedShare(grace float64) float64 {
	return client.MissedShare(o.plan.times(), grace, o.tally.timely)
}

// MinTail is how many observations must lie beyond a percentile for it to be reported.
const MinTail = 10

// spread reports the distribution of times.
func spread(r *load.Report, name string, h *load.Histogram) error {
	if h.Count() == 0 {
		return nil
	}
	if name != "http.processing" { // its percentiles would add little to those of http.time
		r.Values[name+".min"], r.Values[name+".max"] = h.Min(), h.Percentile(100)
		r.Values[name+".mean"], r.Values[name+".sd"] = h.Mean(), h.StdDev()
		for _, p := range Percentiles() {
			if float64(h.Count())*(100-p)/100 >= MinTail {
				r.Values[PercentileName(name, p)] = h.Percentile(p)
			}
		}
	}
	d, err := h.Distribution()
	r.Distributions[name] = d
	return err
}

// Percentiles lists the percentiles that are metrics.
func Percentiles() []float64 { return []float64{50, 90, 99, 99.9} }

// PercentileName returns the name of the metric of a percentile.
func PercentileName(times string, p float64) string {
	return times + ".p" + strconv.FormatFloat(p, 'f', -1, 64)
}
