package survey

import (
	"errors"
	"slices"
	"strings"

	"github.com/tare-bench/tare/internal/bench"
)

// chosenParam returns the option that is a list of words, of which each part takes the first that its
// own option of that name takes.
func (s survey) chosenParam(name string) bench.Param {
	var parts, all []string
	for _, p := range s.parts {
		own, ok := p.param(name)
		if !ok || own.Valid == nil {
			continue
		}
		parts = append(parts, p.Name+"."+name)
		if choice := (*bench.ChoiceError)(nil); errors.As(own.Valid("\x00"), &choice) {
			for _, word := range choice.Words {
				if !slices.Contains(all, word) { // several parts may know it
					all = append(all, word)
				}
			}
		}
	}
	return bench.Param{
		Name: name, Doc: "list of words; each of " + strings.Join(parts, ", ") + " that is not set takes the first one " +
			"that it knows",
		Valid: func(value string) error {
			for i, word := range words(value) {
				knows := func(p Part) bool { return p.takes(name, word) }
				if !slices.ContainsFunc(s.parts, knows) {
					return &bench.ListItemError{Word: i, Err: &bench.ChoiceError{Value: word, Words: all}}
				}
			}
			return nil
		},
	}
}

// words splits a list at commas and blanks.
func words(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
}

// chosen returns the value of the part's own option: as it is set, else the first word of a list that the
// option takes, else its default.
func (p Part) chosen(name, value, list string) string {
	if own, ok := p.param(name); !ok || value != own.Default {
		return value
	}
	for _, word := range words(list) {
		if p.takes(name, word) {
			return word
		}
	}
	return value
}

func (p Part) takes(name, word string) bool {
	own, ok := p.param(name)
	return ok && own.Valid != nil && own.Valid(word) == nil
}

// param returns the part's own option.
func (p Part) param(name string) (bench.Param, bool) {
	all := p.Workload.Params()
	i := slices.IndexFunc(all, func(one bench.Param) bool { return one.Name == name })
	if i < 0 {
		return bench.Param{}, false
	}
	return all[i], true
}
