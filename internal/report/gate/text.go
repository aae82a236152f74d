package gate

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/text/plain"
	"github.com/tare-bench/tare/internal/text/unit"
)

// label is a state as people read it.
func (s State) label() string {
	switch s {
	case IsWorse:
		return "WORSE"
	case Harmless:
		return "harmless"
	case Unproved:
		return "not shown"
	default:
		return "unreliable"
	}
}

// power says which difference the run would have found.
func (c *Check) power() string {
	if c.Effect == nil || c.Effect.Detectable == nil {
		return "could not have confirmed any difference"
	}
	found := *c.Effect.Detectable
	if c.Effect.Scale == bench.Difference {
		return "would have found " + unit.Format(found, plain.Line(c.Unit)) + " four times in five"
	}
	if found >= 2 {
		return "would have found ×" + strconv.FormatFloat(twoDigits(found), 'f', -1, 64) + " four times in five"
	}
	return "would have found " + unit.FormatPercent(twoDigits(found-1)) + " four times in five"
}

// twoDigits rounds an estimate to the digits that it has.
func twoDigits(v float64) float64 {
	rounded, _ := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 2, 64), 64) // it was formatted here
	return rounded
}

// margin is what may be worse, in words.
func (c *Check) margin() string {
	if c.Effect != nil && c.Effect.Scale == bench.Difference {
		return unit.Format(c.Margin, plain.Line(c.Unit))
	}
	return unit.FormatPercent(c.Margin)
}

// summary is the judgement in one sentence.
func (j *Judgement) summary() string {
	n := unit.FormatCount(len(j.Checks), "comparison")
	var s string
	switch j.Outcome {
	case Worse:
		s = fmt.Sprintf("failed: %d of %s worse beyond the margin", j.count(IsWorse), n)
	case Passed:
		s = "passed: nothing is worse beyond the margin in " + n
		if open := j.count(Unproved); open > 0 {
			s += fmt.Sprintf("; %d not shown to be harmless", open)
		}
	default:
		s = "nothing can be said"
		switch {
		case j.running:
			s += ": the run is under way"
		case len(j.Checks) == 0:
			s += ": the run compares no primary metric that has a better direction"
		case j.count(Unreliable) > 0:
			s += fmt.Sprintf(": %d of %s unreliable", j.count(Unreliable), n)
		default:
			s += fmt.Sprintf(": %d of %s not shown to be harmless", j.count(Unproved), n)
		}
	}
	if j.Failed > 0 {
		s += "; " + unit.FormatCount(j.Failed, "trial") + " failed"
	}
	return s
}

// Write writes the judgement for people.
func Write(w io.Writer, j *Judgement) error {
	var b strings.Builder
	fmt.Fprintf(&b, "gate: %s on %s, %s\n\n", plain.Line(j.Experiment), plain.Line(j.Host),
		unit.FormatCount(j.Blocks, "block"))
	for i := range j.Checks {
		c := &j.Checks[i]
		fmt.Fprintf(&b, "  %-10s  %s against %s\n", c.State.label(), c.name(), plain.Line(c.Baseline))
		if c.State == Unreliable && c.Margin == 0 { // nothing was judged
			fmt.Fprintf(&b, "  %10s  %s\n", "", c.Finding)
			continue
		}
		fmt.Fprintf(&b, "  %10s  %s; margin %s; %s\n", "", c.Finding, c.margin(), c.power())
	}
	fmt.Fprintf(&b, "\n%s\ntare show %s  what the run found\n", j.summary(), plain.Line(j.id))
	_, err := io.WriteString(w, b.String())
	return err
}
