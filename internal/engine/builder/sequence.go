package builder

import (
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/tare-bench/tare/internal/bench"
)

var (
	// The number of the stage, where podman tells it, the number of the step, their count, the instruction.
	classicStep  = regexp.MustCompile(`^Step ()([0-9]{1,5})/([0-9]{1,5}) : (.*)$`)
	podmanStep   = regexp.MustCompile(`^(\[[0-9]+/[0-9]+\] )?STEP ([0-9]{1,5})/([0-9]{1,5}): (.*)$`)
	podmanCommit = regexp.MustCompile(`^(\[[0-9]+/[0-9]+\] )?COMMIT( |$)`)
)

// A sequence is the progress of a builder that does one step after the other, and prints a line when
// one begins.
type sequence struct {
	said
	begin  time.Duration
	step   *regexp.Regexp
	cached string         // begins the line after the step's own if the step came from the cache
	export *regexp.Regexp // the line when the last step has ended, and the image is stored; nil = there is none
	end    string         // begins the line when the last step has ended; empty = there is none
	sent   bool           // the command sends the context before the first step
	errors string         // begins the lines of stderr that say why the build failed; empty = all do

	steps   []bench.BuildStep
	open    bool          // the last of steps is at work
	since   time.Duration // when it began
	first   bool          // the line before was the step's own
	number  int           // of the last step
	of      string        // how many there are
	stage   string
	closing bool // the last step has ended
}

func (s *sequence) line(text string, at time.Duration, stderr bool) {
	if stderr {
		s.complains(text)
		return
	}
	text = colour.ReplaceAllLiteralString(text, "") // docker colours what a step prints to its stderr
	first := s.first
	s.first = false
	m := s.step.FindStringSubmatch(text)
	switch {
	case m != nil && s.follows(m):
		if len(s.steps) == 0 {
			s.why = "" // what came before were warnings
		}
		if len(s.steps) == 0 && s.sent {
			s.steps = append(s.steps, bench.BuildStep{Kind: bench.StepContext, Text: "context", Took: at - s.begin})
		}
		s.enter(bench.BuildStep{Kind: bench.KindOf(m[4]), Text: m[4]}, at)
		s.first = true
	case first && strings.HasPrefix(text, s.cached):
		s.steps[len(s.steps)-1].Cached = true
	case s.open && s.export != nil && s.export.MatchString(text):
		s.enter(bench.BuildStep{Kind: bench.StepExport, Text: "commit"}, at)
		s.closing = true
	case s.open && s.end != "" && strings.HasPrefix(text, s.end):
		s.leave(at)
		s.closing = true
	case s.open && !isOwn(text):
		s.printed(text)
	}
}

// complains reads a line of stderr. What a step prints there comes to podman's own stderr, too.
func (s *sequence) complains(text string) {
	switch {
	case strings.TrimSpace(text) == "":
	case strings.HasPrefix(text, s.errors):
		s.why = strings.TrimSpace(strings.TrimPrefix(text, s.errors))
	default:
		s.printed(text)
	}
}

// isOwn reports whether a line is the builder's, and not a step's.
func isOwn(text string) bool {
	for _, begin := range []string{" ---> ", "--> ", "Removing intermediate container ", "Successfully tagged "} {
		if strings.HasPrefix(text, begin) {
			return true
		}
	}
	return false
}

// follows reports whether the line of a step is that of the next one, so that a program that prints
// such lines is not taken for the builder.
func (s *sequence) follows(m []string) bool {
	number, err := strconv.Atoi(m[2])
	same := m[1] == s.stage && m[3] == s.of && number == s.number+1
	if err != nil || s.closing || !same && number != 1 || number == 1 && s.number > 0 && m[1] == s.stage {
		return false
	}
	s.stage, s.number, s.of = m[1], number, m[3]
	return true
}

// enter begins a step.
func (s *sequence) enter(step bench.BuildStep, at time.Duration) {
	s.leave(at)
	s.steps = append(s.steps, step)
	s.since, s.open = at, true
	s.said = said{why: s.why}
}

// leave ends the step that is at work.
func (s *sequence) leave(at time.Duration) {
	if last := len(s.steps) - 1; s.open && !s.steps[last].Cached {
		s.steps[last].Took = at - s.since
	}
	s.open = false
}

func (s *sequence) finish(at time.Duration) []bench.BuildStep {
	s.leave(at)
	return s.steps
}

func (s *sequence) failure(err error) error {
	step := ""
	if n := len(s.steps); n > 0 {
		step = s.steps[n-1].Text
	}
	return s.failed(step, err)
}
