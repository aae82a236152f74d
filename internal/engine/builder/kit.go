package builder

import (
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/tare-bench/tare/internal/bench"
)

// A kit is BuildKit's progress as text. Each line begins with the number of a step.
type kit struct {
	said
	exact  bool // times are exact
	order  []*kitStep
	ids    map[string]*kitStep
	failed *kitStep
}

// A kitStep is a step as BuildKit tells it.
type kitStep struct {
	said
	name      string
	took      time.Duration
	cached    bool
	completed bool
}

var (
	kitLine   = regexp.MustCompile(`^#([0-9]{1,6}) (.*)$`)
	kitDone   = regexp.MustCompile(`^DONE ([0-9.]+)s$`)
	kitOutput = regexp.MustCompile(`^[0-9]+\.[0-9]+ (.*)$`)
	kitName   = regexp.MustCompile(`^\[([^\]]*)\] (.*)$`)
)

// get returns the step of an ID. A new one has that name.
func (k *kit) get(id, name string) *kitStep {
	step := k.ids[id]
	if step == nil {
		step = &kitStep{name: name}
		if k.ids == nil {
			k.ids = map[string]*kitStep{}
		}
		k.ids[id] = step
		k.order = append(k.order, step)
	}
	return step
}

// maxSteps bounds what is kept of a build that goes on and on.
const maxSteps = 10_000

func (k *kit) line(text string, _ time.Duration, stderr bool) {
	m := kitLine.FindStringSubmatch(text)
	if m == nil {
		if stderr && strings.TrimSpace(text) != "" {
			k.why = text
		}
		return
	}
	if len(k.order) >= maxSteps && k.ids[m[1]] == nil {
		return
	}
	step := k.get(m[1], m[2])
	if done := kitDone.FindStringSubmatch(m[2]); done != nil {
		seconds, err := strconv.ParseFloat(done[1], 64)
		step.completed = err == nil && seconds < float64(maxStep/time.Second)
		step.took = time.Duration(seconds * float64(time.Second))
	} else if printed := kitOutput.FindStringSubmatch(m[2]); printed != nil {
		step.printed(printed[1])
	}
	switch {
	case m[2] == "CACHED":
		step.cached = true
	case strings.HasPrefix(m[2], "ERROR"):
		k.failed = step
	}
}

// maxStep is the longest time of a step that is believed.
const maxStep = 1000 * time.Hour

// finish returns the steps. One that was neither completed nor in the cache was not needed.
func (k *kit) finish(time.Duration) []bench.BuildStep {
	var steps []bench.BuildStep
	for _, s := range k.order {
		if !s.cached && !s.completed {
			continue
		}
		step := bench.BuildStep{Kind: bench.StepOther, Text: s.name, Cached: s.cached, Took: s.took, Rounded: !k.exact}
		if step.Cached {
			step.Took = 0
		}
		m := kitName.FindStringSubmatch(s.name)
		switch {
		case m == nil && strings.HasPrefix(s.name, "exporting to "):
			step.Kind = bench.StepExport
		case m != nil && m[1] == "internal" && m[2] == "load build context":
			step.Kind = bench.StepContext
		case m != nil && m[1] != "internal" && !strings.HasPrefix(m[1], "auth"):
			step.Kind, step.Text = bench.KindOf(m[2]), m[2]
		}
		steps = append(steps, step)
	}
	return steps
}

func (k *kit) failure(err error) error {
	failed := k.failed
	for _, step := range k.order {
		if k.failed == nil && !step.cached && !step.completed {
			failed = step // it was at work
		}
	}
	if failed == nil {
		return k.said.failed("", err)
	}
	why := failed.said
	why.why = k.why
	return why.failed(failed.name, err)
}
