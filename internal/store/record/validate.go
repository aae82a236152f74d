package record

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tare-bench/tare/internal/bench"
)

// Limits on a run, far above real runs. They prevent a small hostile file from causing a large
// allocation.
const (
	maxCells   = 4096
	maxMetrics = 1024
	maxValues  = 1 << 26 // metrics × samples of one run: 512 MiB
	maxSeries  = 1024    // of one sample
	maxName    = 1024    // bytes, of the metric of a series
)

// ValidateHeader returns an error if a header is invalid. Every stored run has a valid header.
func ValidateHeader(h *bench.Header) error {
	if err := bench.ValidRunID(h.ID); err != nil {
		return err
	}
	if h.Began.IsZero() {
		return errors.New(`the header has no "began"`)
	}
	if err := validTime(h.Began); err != nil {
		return err
	}
	if err := validPlan(&h.Plan); err != nil {
		return err
	}
	for i, block := range h.Schedule {
		for _, cell := range block {
			if cell < 0 || cell >= len(h.Plan.Cells) {
				return fmt.Errorf("block %d of the schedule has cell %d, but the plan has only %d cells", i, cell,
					len(h.Plan.Cells))
			}
		}
	}
	if err := ValidateWritten(h); err != nil {
		return err
	}
	if err := validJoint(h.Joint); err != nil {
		return err
	}
	return validMetrics(h.Metrics)
}

// validJoint reports what is wrong with what ties a run to others.
func validJoint(j *bench.Joint) error {
	if j == nil {
		return nil
	}
	if err := bench.ValidRunID(j.ID); err != nil {
		return fmt.Errorf(`"joint": %w`, err)
	}
	if len(j.Hosts) == 0 || len(j.Hosts) > bench.MaxJoint || !slices.Contains(j.Hosts, j.Host) {
		return fmt.Errorf(`"joint" has %d hosts, want 1 to %d, and its own among them`, len(j.Hosts), bench.MaxJoint)
	}
	for _, host := range j.Hosts {
		if len(host) == 0 || len(host) > maxName {
			return fmt.Errorf(`"joint" has a host whose name has %d bytes, want 1 to %d`, len(host), maxName)
		}
	}
	return nil
}

// ValidateWritten reports what is wrong with what people have written on a run.
func ValidateWritten(h *bench.Header) error {
	if h.Name != "" {
		if err := bench.ValidRunName(h.Name); err != nil {
			return err
		}
	}
	if n := len(h.Remarks); n > bench.MaxRemarks {
		return fmt.Errorf("the run has %d notes, want at most %d", n, bench.MaxRemarks)
	}
	for _, r := range h.Remarks {
		if err := cmp.Or(bench.ValidRemark(r), validTime(r.Time)); err != nil {
			return err
		}
	}
	return nil
}

func validPlan(p *bench.Plan) error {
	if n := len(p.Cells); n < 1 || n > maxCells {
		return fmt.Errorf("the plan has %d cells; it must have 1 to %d", n, maxCells)
	}
	if p.Warmup < 0 {
		return fmt.Errorf("the plan has %d warm-up blocks", p.Warmup)
	}
	for _, h := range p.Hooks {
		if h.Do == bench.HookCommand && len(h.Argv) == 0 {
			return fmt.Errorf("the plan's hook for %q has no command", h.When)
		}
	}
	if err := validMargins(p.Margins); err != nil {
		return err
	}
	numbers := []float64{p.Precision, p.Smallest}
	for _, m := range p.Margins {
		numbers = append(numbers, m.Precision, m.Smallest)
	}
	for _, c := range p.Cells {
		numbers = append(numbers, c.Spec.Limits.CPUs)
	}
	for _, v := range numbers { // JSON has no NaN and no infinity
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("the plan contains the number %v, which is not finite", v)
		}
	}
	return nil
}

func validMargins(list []bench.Margin) error {
	if len(list) > maxMetrics {
		return fmt.Errorf("the plan has %d margins; it may have at most %d", len(list), maxMetrics)
	}
	seen := make(map[string]bool, len(list))
	for _, m := range list {
		if seen[m.Metric] {
			return fmt.Errorf("the plan has two margins for %.80q", m.Metric)
		}
		seen[m.Metric] = true
	}
	return nil
}

func validMetrics(list []bench.Metric) error {
	if len(list) > maxMetrics {
		return fmt.Errorf("there are %d metrics; there may be at most %d", len(list), maxMetrics)
	}
	seen := make(map[string]bool, len(list))
	for i, m := range list {
		switch {
		case m.Name == "":
			return fmt.Errorf("metric %d has no name", i)
		case seen[m.Name]:
			return fmt.Errorf("two metrics are named %.80q", m.Name)
		}
		seen[m.Name] = true
		if err := validMetric(m); err != nil {
			return fmt.Errorf("metric %.80q: %w", m.Name, err)
		}
	}
	return nil
}

func validMetric(m bench.Metric) error {
	switch m.Better {
	case bench.Lower, bench.Higher, bench.Neither:
	default:
		return fmt.Errorf(`"better" is %.40q; it must be lower, higher or neither`, m.Better)
	}
	switch m.Role {
	case bench.Primary, bench.Detail, bench.Counter, bench.State:
	default:
		return fmt.Errorf(`"role" is %.40q; it must be primary, detail, counter or state`, m.Role)
	}
	switch m.Scale {
	case bench.Ratio, bench.Difference:
	default:
		return fmt.Errorf(`"scale" is %.40q; it must be ratio or difference`, m.Scale)
	}
	return nil
}

// ValidateSample returns an error if a sample is invalid for the run with header h. Its Seq must be
// next.
func ValidateSample(h *bench.Header, next int, s *bench.Sample) error {
	err := validSample(h, next, s)
	if err != nil {
		return fmt.Errorf("sample %d: %w", s.Trial.Seq, err)
	}
	return nil
}

func validSample(h *bench.Header, next int, s *bench.Sample) error {
	switch t := s.Trial; {
	case t.Seq != next:
		return fmt.Errorf("out of order: sample %d comes next", next)
	case next >= maxValues/max(1, len(h.Metrics)):
		return fmt.Errorf("the run has more than %d values, which is the limit", maxValues)
	case t.Cell < 0 || t.Cell >= len(h.Plan.Cells):
		return fmt.Errorf("it is of cell %d, but the plan has only %d cells", t.Cell, len(h.Plan.Cells))
	case len(h.Schedule) > 0 && (t.Block < -h.Plan.Warmup || t.Block >= len(h.Schedule)-h.Plan.Warmup):
		return fmt.Errorf("its block %d is not in the schedule", t.Block)
	case s.Elapsed < 0:
		return fmt.Errorf("its duration is %v, which is negative", s.Elapsed)
	case s.Counted < 0 || s.Counted > s.Elapsed:
		return fmt.Errorf("the host's counters span %v, which is not within the %v of the trial", s.Counted, s.Elapsed)
	case s.Outcome != bench.OK && s.Counted != 0:
		return fmt.Errorf("it has host counters over %v although its outcome is %.40q", s.Counted, s.Outcome)
	case s.Outcome == bench.OK && len(s.Values) != len(h.Metrics):
		return fmt.Errorf("it has %d values, but the run has %d metrics", len(s.Values), len(h.Metrics))
	case s.Outcome != bench.OK && s.Values != nil:
		return fmt.Errorf("it has values although its outcome is %.40q", s.Outcome)
	case s.Outcome != bench.OK && s.Series != nil:
		return fmt.Errorf("it has series although its outcome is %.40q", s.Outcome)
	case s.Outcome != bench.OK && s.Distributions != nil:
		return fmt.Errorf("it has distributions although its outcome is %.40q", s.Outcome)
	case s.Outcome != bench.OK && s.Trace != nil:
		return fmt.Errorf("it has a trace although its outcome is %.40q", s.Outcome)
	}
	if err := validSeries(s.Series); err != nil {
		return err
	}
	if err := cmp.Or(validDistributions(s.Distributions), validTrace(s.Trace)); err != nil {
		return err
	}
	if err := validParts(s.Parts); err != nil {
		return err
	}
	switch s.Outcome {
	case bench.OK, bench.Failed, bench.TimedOut, bench.Canceled, bench.Skipped, bench.Unsupported:
		return validTime(s.Began)
	}
	return fmt.Errorf("unknown outcome %.40q", s.Outcome)
}

func validParts(all []bench.PartOutcome) error {
	for _, p := range all {
		switch p.Outcome {
		case bench.OK, bench.Failed, bench.Unsupported:
		default:
			return fmt.Errorf("part %.40q: unknown outcome %.40q; it must be ok, failed or unsupported", p.Part,
				p.Outcome)
		}
		if p.Part == "" {
			return errors.New("a part has no name")
		}
	}
	return nil
}

func validSeries(all []bench.Series) error {
	if len(all) > maxSeries {
		return fmt.Errorf("it has %d series; it may have at most %d", len(all), maxSeries)
	}
	room, seen := bench.MaxSeriesValues, make(map[string]bool, len(all))
	for _, s := range all {
		room -= len(s.Values)
		switch {
		case s.Metric == "" || len(s.Metric) > maxName:
			return fmt.Errorf("the series of %.80q: the name has %d bytes; it must have 1 to %d", s.Metric,
				len(s.Metric), maxName)
		case seen[s.Metric]:
			return fmt.Errorf("it has two series of %.80q", s.Metric)
		case len(s.Values) == 0:
			return fmt.Errorf("the series of %.80q has no values", s.Metric)
		case room < 0:
			return fmt.Errorf("its series have more than %d values", bench.MaxSeriesValues)
		}
		seen[s.Metric] = true
		for _, v := range s.Values {
			if math.IsNaN(v) || math.IsInf(v, 0) {
				return fmt.Errorf("the series of %.80q contains the value %v, which is not allowed", s.Metric, v)
			}
		}
	}
	return nil
}

// validDistributions checks names, sizes and characters. It does not check the contents of
// histograms: HdrHistogram's own decoder does.
func validDistributions(all []bench.Distribution) error {
	if len(all) > bench.MaxDistributions {
		return fmt.Errorf("it has %d distributions; it may have at most %d", len(all), bench.MaxDistributions)
	}
	seen := make(map[string]bool, len(all))
	for _, d := range all {
		switch {
		case d.Metric == "" || len(d.Metric) > maxName:
			return fmt.Errorf("the distribution of %.80q: the name has %d bytes; it must have 1 to %d", d.Metric,
				len(d.Metric), maxName)
		case seen[d.Metric]:
			return fmt.Errorf("it has two distributions of %.80q", d.Metric)
		case d.HDR == "" || len(d.HDR) > bench.MaxHDR:
			return fmt.Errorf("the distribution of %.80q has %d bytes; it must have 1 to %d", d.Metric, len(d.HDR),
				bench.MaxHDR)
		case strings.ContainsFunc(d.HDR, notBase64):
			return fmt.Errorf("the distribution of %.80q is not base64", d.Metric)
		}
		seen[d.Metric] = true
	}
	return nil
}

func notBase64(r rune) bool {
	letter := 'A' <= r && r <= 'Z' || 'a' <= r && r <= 'z' || '0' <= r && r <= '9'
	return !letter && r != '+' && r != '/' && r != '='
}

func validTrace(t *bench.Trace) error {
	switch {
	case t == nil:
		return nil
	case t.LeftOut < 0 || t.LeftOut == 0 && len(t.Events) == 0:
		return fmt.Errorf("its trace has %d events and %d omitted ones", len(t.Events), t.LeftOut)
	case len(t.Events) > bench.MaxTraceEvents:
		return fmt.Errorf("its trace has %d events; it may have at most %d", len(t.Events), bench.MaxTraceEvents)
	}
	room, last := bench.MaxTraceBytes, time.Duration(0)
	for i, e := range t.Events {
		room -= e.Size()
		switch {
		case e.Name == "":
			return fmt.Errorf("event %d of the trace has no name", i)
		case e.At < last:
			return fmt.Errorf("event %d of the trace is at %v, but the event before it is at %v", i, e.At, last)
		case room < 0:
			return fmt.Errorf("its trace has more than %d bytes", bench.MaxTraceBytes)
		}
		last = e.At
	}
	return nil
}

// ValidateResumption returns an error if a resumption is invalid for the run with header h, as
// earlier resumptions have left it. The first trial after it must be next.
func ValidateResumption(h *bench.Header, next int, r *bench.Resumption) error {
	switch {
	case r.Seq != next:
		return fmt.Errorf("it was resumed at trial %d, but trial %d comes next", r.Seq, next)
	case r.Time.IsZero():
		return errors.New(`a resumption has no "time"`)
	}
	if err := validExtension(h, r.Extension); err != nil {
		return fmt.Errorf("the extension at trial %d: %w", next, err)
	}
	return validTime(r.Time)
}

func validExtension(h *bench.Header, e *bench.Extension) error {
	if e == nil {
		return nil
	}
	for i, block := range e.Schedule {
		for _, cell := range block {
			if cell < 0 || cell >= len(h.Plan.Cells) {
				return fmt.Errorf("block %d of its schedule names cell %d of %d", i, cell, len(h.Plan.Cells))
			}
		}
	}
	switch scheduled := len(h.Schedule) + len(e.Schedule); {
	case e.MaxBlocks < 1 || e.Budget < 0:
		return fmt.Errorf("its limits are %d blocks and %v", e.MaxBlocks, e.Budget)
	case scheduled > 0 && e.MaxBlocks > scheduled-h.Plan.Warmup:
		return fmt.Errorf("it allows for %d blocks, and %d are scheduled", e.MaxBlocks, scheduled-h.Plan.Warmup)
	}
	return ValidateEnd(&e.After)
}

// ValidateEnd returns an error if the end of a run is invalid.
func ValidateEnd(e *bench.End) error {
	if e.Time.IsZero() {
		return errors.New(`the end has no "time"`)
	}
	switch e.Reason {
	case bench.StopPrecision, bench.StopBlocks, bench.StopBudget, bench.StopAllFailed:
		return validTime(e.Time)
	}
	return fmt.Errorf("unknown reason %.40q for the end of the run", e.Reason)
}

// validTime refuses what RFC 3339 cannot write.
func validTime(t time.Time) error {
	if y := t.UTC().Year(); y < 0 || y > 9999 {
		return fmt.Errorf("the year %d cannot be written in RFC 3339", y)
	}
	return nil
}
