package gate

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/text/plain"
	"github.com/tare-bench/tare/internal/text/term"
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

// margin is what may be worse, in words. It is a factor, and what a rate may lose is less than what a time
// may gain.
func (c *Check) margin() string {
	switch {
	case c.Effect != nil && c.Effect.Scale == bench.Difference:
		return unit.Format(c.Margin, plain.Line(c.Unit))
	case c.rate:
		return unit.FormatPercent(c.Margin) + " (" + unit.FormatPercent(c.share(math.Log1p(c.Margin))) + " less)"
	default:
		return unit.FormatPercent(c.Margin)
	}
}

// share is a worsening, the logarithm of a ratio, as a share of the baseline's value.
func (c *Check) share(worsening float64) float64 {
	if c.rate {
		return -math.Expm1(-worsening)
	}
	return math.Expm1(worsening)
}

// exactly writes the worsening that was judged, an estimate or the bad end of an interval, and the margin, with as many
// digits as it takes to see which is larger. It is empty where the two digits of a finding show that.
func (c *Check) exactly(judged float64, isEnd bool) string {
	found, margin := c.share(judged)*100, c.share(math.Log1p(c.Margin))*100
	if found <= 0 || math.Abs(found-margin) >= math.Pow10(int(math.Floor(math.Log10(found)))-1) {
		return ""
	}
	what := "exactly"
	if isEnd {
		what = "the interval ends at"
	}
	const most = 6
	for digits := 2; digits <= most; digits++ {
		a, b := strconv.FormatFloat(found, 'f', digits, 64), strconv.FormatFloat(margin, 'f', digits, 64)
		if a != b {
			return fmt.Sprintf(", %s %s %%, the margin is %s %%", what, a, b)
		}
	}
	return fmt.Sprintf(", %s the margin", what)
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

// Write writes the judgement for people, in lines of at most so many columns.
func Write(w io.Writer, j *Judgement, columns int) error {
	var b strings.Builder
	term.WriteWrapped(&b, "gate: ", fmt.Sprintf("%s on %s, %s", plain.Line(j.Experiment), plain.Line(j.Host),
		unit.FormatCount(j.Blocks, "block")), columns)
	b.WriteByte('\n')
	for i := range j.Checks {
		c := &j.Checks[i]
		begin := "  " + term.Pad(c.State.label(), 12, false)
		term.WriteWrapped(&b, begin, c.name()+" against "+plain.Line(c.Baseline), columns)
		said := c.Finding
		if c.State != Unreliable || c.Margin != 0 { // it was judged
			said += "; margin " + c.margin() + "; " + c.power()
		}
		term.WriteWrapped(&b, strings.Repeat(" ", term.Width(begin)), said, columns)
	}
	b.WriteByte('\n')
	term.WriteWrapped(&b, "", j.summary(), columns)
	fmt.Fprintf(&b, "tare show %s  what the run found\n", plain.Line(j.id))
	_, err := io.WriteString(w, b.String())
	return err
}
