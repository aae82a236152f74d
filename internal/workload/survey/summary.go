package survey

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/supervise"
)

// summary is a Recorder that makes one sample of several parts: it sums the counters and the states of
// all of them, and merges what was applied.
type summary struct {
	bench.Recorder
	counters map[string]bool
	counted  map[string]float64

	want    bench.Spec
	applied *bench.Applied

	allParts map[string]bool            // notes that matter only if all parts of a workload have them
	noted    map[string]map[string]bool // the parts that have such a note, by code
}

func newSummary(to bench.Recorder, w survey) *summary {
	s := &summary{
		Recorder: to, counters: map[string]bool{}, counted: map[string]float64{},
		allParts: map[string]bool{}, noted: map[string]map[string]bool{},
	}
	for _, n := range w.Notes() {
		s.allParts[n.Code] = n.AllParts
	}
	for _, metric := range w.Metrics() {
		if metric.Role == bench.Counter || metric.Role == bench.State {
			s.counters[metric.Name] = true
		}
	}
	return s
}

// of returns the Recorder of one part.
func (s *summary) of(r *partState) bench.Recorder {
	if r.regrouped {
		return regroupedRecorder{sum: s}
	}
	return partRecorder{s, r.Part}
}

// regroupedRecorder is the Recorder of a part in another container than usual: its values are
// dropped, except counters that are summed over all parts.
type regroupedRecorder struct {
	bench.Discard
	sum *summary
}

// Record implements bench.Recorder.
func (a regroupedRecorder) Record(metric string, value float64) {
	if a.sum.counters[metric] {
		a.sum.counted[metric] += value
	}
}

// Applied implements bench.Recorder.
func (a regroupedRecorder) Applied(want bench.Spec, got bench.Applied) error {
	return a.sum.Applied(want, got)
}

type partRecorder struct {
	*summary
	part Part
}

// Record implements bench.Recorder.
func (p partRecorder) Record(metric string, value float64) {
	if p.counters[metric] {
		p.counted[metric] += value
		return
	}
	p.Recorder.Record(p.part.metric(metric), value)
}

// Note implements bench.Recorder. A note that matters only throughout is kept until all
// parts have run.
func (p partRecorder) Note(code string) {
	if !p.allParts[code] {
		p.Recorder.Note(code)
		return
	}
	if p.noted[code] == nil {
		p.noted[code] = map[string]bool{}
	}
	p.noted[code][p.part.Name] = true
}

// Series implements bench.Recorder.
func (p partRecorder) Series(metric string, values []float64) {
	p.Recorder.Series(p.part.metric(metric), values)
}

// Distribution implements bench.Recorder.
func (p partRecorder) Distribution(metric, hdr string) {
	p.Recorder.Distribution(p.part.metric(metric), hdr)
}

// Applied implements bench.Recorder. Each part is attested with its own Spec. The sample
// keeps what was applied to the first part, with data, path, builder and maker of the first
// parts that have them.
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
	s.applied.Builder = cmp.Or(s.applied.Builder, got.Builder)
	s.applied.Maker = cmp.Or(s.applied.Maker, got.Maker)
	return bench.Attest(want, got)
}

// prefixed returns a metric of the part's workload under its name in the survey. All parts
// share the counters of the host, and the states of the trial.
func (p Part) prefixed(m bench.Metric) bench.Metric {
	if m.Role == bench.State || m.Role == bench.Counter && !strings.HasPrefix(m.Name, supervise.Inside) {
		return m
	}
	m.Name = p.metric(m.Name)
	if m.StretchOf != "" {
		m.StretchOf = p.metric(m.StretchOf)
	}
	if p.Title != "" {
		m.Title += ", " + p.Title
	}
	return m
}

// metric returns the name of a metric in the survey. The counters of the processes inside
// exist for each part, so they get what begins the names of the part's metrics.
func (p Part) metric(name string) string {
	own, rest, _ := strings.Cut(name, ".")
	switch {
	case p.Prefix != "":
		return p.Prefix + "." + name
	case strings.HasPrefix(name, supervise.Inside):
		return p.begins + "." + name
	case p.As == "" || rest == "":
		return name
	default:
		return p.As + strings.TrimPrefix(name, own)
	}
}

// noteThroughout marks the sample with the notes that all measured parts of a workload
// have.
func (s *summary) noteThroughout(parts []*partState) {
	for _, code := range slices.Sorted(maps.Keys(s.noted)) {
		with, without := map[string]bool{}, map[string]bool{} // by workload
		for _, r := range parts {
			switch name := r.Workload.Name(); {
			case s.noted[code][r.Name]:
				with[name] = true
			case r.err() == nil:
				without[name] = true
			}
		}
		for name := range with {
			if !without[name] {
				s.Recorder.Note(code)
				break
			}
		}
	}
}

// flush reports the summed counters and what was applied.
func (s *summary) flush() error {
	for _, name := range slices.Sorted(maps.Keys(s.counted)) {
		s.Recorder.Record(name, s.counted[name])
	}
	if s.applied == nil {
		return nil
	}
	return s.Recorder.Applied(s.want, *s.applied)
}
