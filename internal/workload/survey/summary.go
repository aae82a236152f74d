package survey

import (
	"maps"
	"slices"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/party"
)

// summary is a Meter that makes one sample of several parts: it joins what the
// kernel counted, and what was applied.
type summary struct {
	bench.Meter
	counters map[string]bool
	counted  map[string][]float64 // by part

	want    bench.Spec
	applied *bench.Applied
}

func newSummary(m bench.Meter, metrics []bench.Metric) *summary {
	s := &summary{Meter: m, counters: map[string]bool{}, counted: map[string][]float64{}}
	for _, metric := range metrics {
		if metric.Role == bench.Counter {
			s.counters[metric.Name] = true
		}
	}
	return s
}

// Record implements bench.Meter.
func (s *summary) Record(metric string, value float64) {
	if s.counters[metric] {
		s.counted[metric] = append(s.counted[metric], value)
		return
	}
	s.Meter.Record(metric, value)
}

// Applied implements bench.Meter. Each part is held to its own specification;
// kept is what was applied to the first, with the data and the path of those
// that had them.
func (s *summary) Applied(want bench.Spec, got bench.Applied) error {
	if s.applied == nil {
		s.want, s.applied = want, &got
		return bench.Attest(want, got)
	}
	if s.applied.Data == "" {
		s.applied.Data, s.want.Storage = got.Data, want.Storage
	}
	if s.applied.Path == nil {
		s.applied.Path = got.Path
	}
	return bench.Attest(want, got)
}

// flush reports what was collected.
func (s *summary) flush() error {
	for _, name := range slices.Sorted(maps.Keys(s.counted)) {
		s.Meter.Record(name, party.Join(name, s.counted[name]))
	}
	if s.applied == nil {
		return nil
	}
	return s.Meter.Applied(s.want, *s.applied)
}
