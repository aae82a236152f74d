package survey

import (
	"regexp"
	"slices"
	"strings"

	"github.com/tare-bench/tare/internal/bench"
)

// optionInText finds the options that the advice of a workload names, in the words that workloads use for
// that. "option" alone is no such word: the output of a program, which an error quotes, has it too.
var optionInText = regexp.MustCompile(`(--param |(?:\(|\b(?:as|leave|see|set|with) )option )([a-z][a-z0-9_-]*)`)

// adviceHere returns what the workload of a part advises, with options and metrics as the survey calls
// them: whoever follows it types these.
func (s survey) adviceHere(p Part, text string) string {
	text = optionInText.ReplaceAllStringFunc(text, func(found string) string {
		m := optionInText.FindStringSubmatch(found)
		words, name := m[1], m[2]
		if _, ok := p.param(name); !ok || slices.Contains(s.shared, name) || slices.Contains(s.chosen, name) {
			return found
		}
		return words + p.Name + "." + name
	})
	for _, m := range p.Workload.Metrics() {
		if strings.HasPrefix(text, "see "+m.Name+" ") {
			text = "see " + p.metric(m.Name) + strings.TrimPrefix(text, "see "+m.Name)
		}
	}
	return text
}

// Notes implements bench.Noter: it lists the notes of every part.
func (s survey) Notes() []bench.Note {
	var all []bench.Note
	for _, p := range s.parts {
		for _, n := range bench.NotesOf(p.Workload) {
			if slices.ContainsFunc(all, func(o bench.Note) bool { return o.Code == n.Code }) {
				continue
			}
			n.Advice = s.noteAdvice(n.Code, n.Advice)
			if ways := n.MixedChoices; ways != nil {
				mixed := *ways // the workload's own stays as it is
				mixed.Advice = s.noteAdvice(n.Code, mixed.Advice)
				n.MixedChoices = &mixed
			}
			all = append(all, n)
		}
	}
	return all
}

// noteAdvice returns the advice of a note. If it can be of several parts, a placeholder stands for their names.
func (s survey) noteAdvice(code, text string) string {
	with := slices.DeleteFunc(slices.Clone(s.parts), func(p Part) bool {
		return !slices.ContainsFunc(bench.NotesOf(p.Workload), func(n bench.Note) bool { return n.Code == code })
	})
	if len(with) == 1 {
		return s.adviceHere(with[0], text)
	}
	each := with[0]
	each.Name = "PART"
	if each.As != "" {
		each.As = each.Name
	}
	here := s.adviceHere(each, text)
	if here == text {
		return text
	}
	var names []string
	for _, p := range with {
		names = append(names, p.Name)
	}
	last := len(names) - 1
	return here + " (" + each.Name + " is " + strings.Join(names[:last], ", ") + " or " + names[last] + ")"
}

// An errorHere is the error of a part with its advice as the survey gives it.
type errorHere struct {
	error
	text string
}

func (s survey) errorHere(p Part, err error) error {
	return errorHere{err, s.adviceHere(p, err.Error())}
}

func (e errorHere) Error() string { return e.text }
func (e errorHere) Unwrap() error { return e.error }
