package gate

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/tare-bench/tare/internal/bench"
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

// power says which difference the run would have found; nothing where none could be judged.
func (c *Check) power() string {
	if c.Margin == nil {
		return ""
	}
	if c.Effect.Detectable == nil {
		return "could not have confirmed any difference"
	}
	found := *c.Effect.Detectable
	if c.Effect.Scale == bench.Difference {
		return "would have found " + unit.Format(found, line(c.Unit)) + " four times in five"
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
// may gain. It is empty where nothing could be judged by it.
func (c *Check) margin() string {
	switch {
	case c.Margin == nil:
		return ""
	case c.Effect.Scale == bench.Difference:
		return unit.Format(*c.Margin, line(c.Unit))
	case c.rate:
		return unit.FormatPercent(*c.Margin) + " (" + unit.FormatPercent(c.share(math.Log1p(*c.Margin))) + " less)"
	default:
		return unit.FormatPercent(*c.Margin)
	}
}

// said is the finding, with the margin and the power where there are any.
func (c *Check) said() string {
	said := line(c.Finding)
	if c.Margin != nil {
		said += "; margin " + c.margin() + "; " + c.power()
	}
	return said
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
	found, margin := c.share(judged)*100, c.share(math.Log1p(*c.Margin))*100
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
	case Undecided:
		return "nothing can be said: " + strings.Join(slices.Concat(j.open(n), j.obstacles()), "; ")
	case TrialsFailed:
		s = "trials failed: otherwise nothing is worse beyond the margin in " + n
	default:
		s = "passed: nothing is worse beyond the margin in " + n
	}
	if open := j.count(Unproved); open > 0 && j.Outcome != Worse {
		s += fmt.Sprintf("; %d not shown to be harmless", open)
	}
	return strings.Join(append([]string{s}, j.obstacles()...), "; ")
}

// open says how many of all comparisons, of which n says how many there are, let nothing be said.
func (j *Judgement) open(n string) []string {
	switch {
	case j.count(Unreliable) > 0:
		return []string{fmt.Sprintf("%d of %s unreliable", j.count(Unreliable), n)}
	case j.Strict && j.count(Unproved) > 0:
		return []string{fmt.Sprintf("%d of %s not shown to be harmless", j.count(Unproved), n)}
	default:
		return nil
	}
}

// obstacles lists what keeps a gate from passing beside its comparisons.
func (j *Judgement) obstacles() (all []string) {
	if j.running {
		all = append(all, "the run is under way")
	}
	if len(j.Checks) == 0 {
		all = append(all, "the run compares no primary metric that has a better direction")
	}
	if j.Failed > 0 {
		all = append(all, unit.FormatCount(j.Failed, "failure")+" in trials")
	}
	return all
}

// Write writes the judgement for people, in lines of at most so many columns.
func Write(w io.Writer, j *Judgement, columns int) error {
	var b strings.Builder
	term.WriteWrapped(&b, "gate: ", fmt.Sprintf("%s on %s, %s", line(j.Experiment), line(j.Host),
		unit.FormatCount(j.Blocks, "block")), columns)
	b.WriteByte('\n')
	for i := range j.Checks {
		c := &j.Checks[i]
		begin := "  " + term.Pad(c.State.label(), 12, false)
		term.WriteWrapped(&b, begin, c.pair(), columns)
		term.WriteWrapped(&b, strings.Repeat(" ", term.Width(begin)), c.said(), columns)
	}
	b.WriteByte('\n')
	term.WriteWrapped(&b, "", j.summary(), columns)
	fmt.Fprintf(&b, "tare show %s  what the run found\n", line(j.id))
	_, err := io.WriteString(w, b.String())
	return err
}
