package survey

import (
	"maps"
	"slices"
	"strings"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/party"
)

// summary is a Meter that makes one sample of several parts: it adds up what the
// kernel counted in all of them, and joins what was applied.
type summary struct {
	bench.Meter
	counters map[string]bool
	counted  map[string]float64

	want    bench.Spec
	applied *bench.Applied

	throughout map[string]bool            // notes that matter only where all parts of a workload have them
	noted      map[string]map[string]bool // which parts have these, by code
}

func newSummary(m bench.Meter, w survey) *summary {
	s := &summary{
		Meter: m, counters: map[string]bool{}, counted: map[string]float64{},
		throughout: map[string]bool{}, noted: map[string]map[string]bool{},
	}
	for _, n := range w.Notes() {
		s.throughout[n.Code] = n.Throughout
	}
	for _, metric := range w.Metrics() {
		if metric.Role == bench.Counter {
			s.counters[metric.Name] = true
		}
	}
	return s
}

// of returns the Meter of one part.
func (s *summary) of(r *running) bench.Meter {
	if r.apart {
		return apartMeter{partMeter{s, r.Part}}
	}
	return partMeter{s, r.Part}
}

// apartMeter is that of a part in another container than usual: what it measures there
// is not kept, but for what the kernel counts for all parts together.
type apartMeter struct{ partMeter }

// Record implements bench.Meter.
func (m apartMeter) Record(metric string, value float64) {
	if m.counters[metric] {
		m.partMeter.Record(metric, value)
	}
}

// Span implements bench.Meter.
func (m apartMeter) Span(metric string, op func() error) (bench.Span, error) {
	return m.Step(m.part.metric(metric), op)
}

// Series implements bench.Meter.
func (apartMeter) Series(string, []float64) {}

// Distribution implements bench.Meter.
func (apartMeter) Distribution(_, _ string) {}

// Note implements bench.Meter: there is nothing that it could qualify.
func (apartMeter) Note(string) {}

type partMeter struct {
	*summary
	part Part
}

// Record implements bench.Meter.
func (m partMeter) Record(metric string, value float64) {
	if m.counters[metric] {
		m.counted[metric] += value
		return
	}
	m.Meter.Record(m.part.metric(metric), value)
}

// Note implements bench.Meter. Whether some notes are worth telling is known when all
// parts have been asked.
func (m partMeter) Note(code string) {
	if !m.throughout[code] {
		m.Meter.Note(code)
		return
	}
	if m.noted[code] == nil {
		m.noted[code] = map[string]bool{}
	}
	m.noted[code][m.part.Name] = true
}

// Span implements bench.Meter.
func (m partMeter) Span(metric string, op func() error) (bench.Span, error) {
	return m.Meter.Span(m.part.metric(metric), op)
}

// Series implements bench.Meter.
func (m partMeter) Series(metric string, values []float64) {
	m.Meter.Series(m.part.metric(metric), values)
}

// Distribution implements bench.Meter.
func (m partMeter) Distribution(metric, hdr string) {
	m.Meter.Distribution(m.part.metric(metric), hdr)
}

// Applied implements bench.Meter. Each part is held to its own specification;
// kept is what was applied to the first, with the data and the path of those
// that had them.
func (s *summary) Applied(want bench.Spec, got bench.Applied) error {
	if s.applied == nil {
		s.want, s.applied = want, &got
		return bench.Attest(want, got)
	}
	if s.applied.Data == "" && got.Data != "" {
		s.applied.Data, s.want.Storage = got.Data, want.Storage
	}
	if s.applied.Path == nil {
		s.applied.Path = got.Path
	}
	return bench.Attest(want, got)
}

// named is a metric of the workload as the survey has it. Counters of the host are
// those of all parts.
func (p Part) named(m bench.Metric) bench.Metric {
	if m.Role == bench.Counter && !strings.HasPrefix(m.Name, party.Inside) {
		return m
	}
	m.Name = p.metric(m.Name)
	if p.Title != "" {
		m.Title += ", " + p.Title
	}
	return m
}

// metric is the name of a metric in the survey: what is counted for the processes
// inside is counted for each part, and begins with what its metrics begin with.
func (p Part) metric(name string) string {
	begins := p.As
	if begins == "" {
		begins, _, _ = strings.Cut(p.Workload.Metrics()[0].Name, ".")
	}
	own, rest, _ := strings.Cut(name, ".")
	switch {
	case strings.HasPrefix(name, party.Inside):
		return begins + "." + name
	case p.As == "" || rest == "":
		return name
	default:
		return p.As + strings.TrimPrefix(name, own)
	}
}

// noteThroughout marks the sample with the notes that all parts of some workload have
// that were measured.
func (s *summary) noteThroughout(parts []*running) {
	for _, code := range slices.Sorted(maps.Keys(s.noted)) {
		with, without := map[string]bool{}, map[string]bool{} // by workload
		for _, r := range parts {
			switch name := r.Workload.Name(); {
			case s.noted[code][r.Name]:
				with[name] = true
			case r.why() == nil:
				without[name] = true
			}
		}
		for name := range with {
			if !without[name] {
				s.Meter.Note(code)
				break
			}
		}
	}
}

// flush reports what was collected.
func (s *summary) flush() error {
	for _, name := range slices.Sorted(maps.Keys(s.counted)) {
		s.Meter.Record(name, s.counted[name])
	}
	if s.applied == nil {
		return nil
	}
	return s.Meter.Applied(s.want, *s.applied)
}
