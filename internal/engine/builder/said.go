package builder

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/tare-bench/tare/internal/text/plain"
)

// Of what a step printed, an error has the last lines.
const (
	saidLines = 3
	saidWidth = 120 // characters of each
)

// A said keeps the last lines of what a step printed, and what the builder says about its failure.
type said struct {
	lines []string
	why   string
}

// colour is what turns a terminal's colours on and off.
var colour = regexp.MustCompile(`\x1b\[[0-9;]*m`)

func clean(text string) string {
	text = strings.TrimSpace(plain.Line(colour.ReplaceAllLiteralString(text, "")))
	if r := []rune(text); len(r) > saidWidth { // what failed is at the beginning, and why at the end
		text = string(r[:saidWidth/2]) + "…" + string(r[len(r)-saidWidth/2:])
	}
	return text
}

// printed keeps a line of the step.
func (s *said) printed(text string) {
	if text = clean(text); text == "" {
		return
	}
	if len(s.lines) == saidLines {
		s.lines = slices.Delete(s.lines, 0, 1)
	}
	s.lines = append(s.lines, text)
}

// failed is the error of a command that ended in a step.
func (s *said) failed(step string, err error) error {
	if step = clean(step); step != "" {
		step += ": "
	}
	why := ""
	if s.why != "" {
		why = ": " + clean(s.why)
	}
	last := ""
	if len(s.lines) > 0 {
		last = fmt.Sprintf("; it printed last: %s", strings.Join(s.lines, " | "))
	}
	return fmt.Errorf("%s%w%s%s", step, err, why, last)
}
