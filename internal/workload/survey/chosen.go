package survey

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tare-bench/tare/internal/bench"
)

// chosenParam returns the option that is a list of words, of which each part takes the first that its
// own option of that name takes.
func (s survey) chosenParam(name string) bench.Param {
	var parts []string
	for _, p := range s.parts {
		if p.valid(name) != nil {
			parts = append(parts, p.Name+"."+name)
		}
	}
	return bench.Param{
		Name: name, Doc: "list of words; each of " + strings.Join(parts, ", ") + " that is not set takes the first one that " +
			"it knows",
		Valid: func(value string) error {
			for i, word := range words(value) {
				knows := func(p Part) bool { return p.takes(name, word) }
				if !slices.ContainsFunc(s.parts, knows) {
					return &bench.ListItemError{Word: i, Err: fmt.Errorf("no part knows %.40q", word)}
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

// chosen returns the first word of a list that the part's own option takes; empty if there is none.
func (p Part) chosen(name, list string) string {
	for _, word := range words(list) {
		if p.takes(name, word) {
			return word
		}
	}
	return ""
}

func (p Part) takes(name, word string) bool {
	valid := p.valid(name)
	return valid != nil && valid(word) == nil
}

// valid returns the rule of the part's own option; nil if it has no such option, or takes anything.
func (p Part) valid(name string) func(string) error {
	for _, param := range p.Workload.Params() {
		if param.Name == name {
			return param.Valid
		}
	}
	return nil
}
