package yamldoc

import (
	"cmp"
	"fmt"
	"slices"
	"unicode/utf8"
)

const (
	maxShown = 10  // problems of an Error; a file with more has one mistake that makes many
	maxKept  = 100 // bounds what a file of mistakes costs; the others are counted
)

// Problems collects what is found wrong with a Source, so that one look shows
// it all. It begins with the Source alone.
type Problems struct {
	Source Source
	kept   []Problem
	more   int
}

// Fail notes a problem. The hint says what would be right; it may be empty.
func (p *Problems) Fail(at Place, message, hint string) {
	if p.Full() {
		p.more++
		return
	}
	problem := Problem{File: p.Source.Name, Flag: at.Flag, Message: message, Hint: hint}
	if line, ok := p.Source.line(at.Line); ok && at.Flag == "" {
		problem.Line, problem.Column, problem.Width, problem.Source = at.Line, at.Column, at.Width, line
	}
	p.kept = append(p.kept, problem)
}

// WrongKind notes a node of the wrong kind, such as a list in place of a word. want
// is what is expected.
func (p *Problems) WrongKind(n Node, want string) {
	p.Fail(n.At, fmt.Sprintf("expected %s, but got %s", want, n.Kind), "")
}

// Count is the number of problems found.
func (p *Problems) Count() int { return len(p.kept) + p.more }

// Full reports whether further problems are only counted, and their texts not kept.
func (p *Problems) Full() bool { return len(p.kept) == maxKept }

// Err returns an *Error with what was found, or nil. A long hint, which lists
// everything that would be right, is said once.
func (p *Problems) Err() error {
	if len(p.kept) == 0 {
		return nil
	}
	all := slices.Clone(p.kept)
	slices.SortStableFunc(all, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	all = slices.Compact(all)
	said := map[string]bool{}
	for i, p := range all {
		if long := len(p.Hint) > 100; long && said[p.Hint] {
			all[i].Hint = ""
		}
		said[p.Hint] = true
	}
	shown := min(len(all), maxShown)
	return &Error{Problems: all[:shown], More: p.more + len(all) - shown}
}

// Quote shows a value in a message, cut where it is long.
func Quote(s string) string {
	const most = 60
	if utf8.RuneCountInString(s) > most {
		s = string([]rune(s)[:most]) + "…"
	}
	return fmt.Sprintf("%q", s)
}
