// Package pgbenchtools reads the config of pgbench-tools, which is pgbent since 2025, and makes a
// tare experiment of it. The config is a file of shell variables; nothing in it is executed.
//
// What the variables mean comes from what its scripts runset and benchwarmer do with them. A note
// names each difference in meaning.
package pgbenchtools

import (
	"cmp"
	"slices"
	"strings"

	"github.com/tare-bench/tare/internal/experiment/yamldoc"
)

// Recognise reports whether data is a config of pgbench-tools, valid or not.
func Recognise(data []byte) bool {
	seen := map[string]bool{}
	for line := range strings.Lines(string(data)) {
		if name, _, ok := assignment(line); ok {
			seen[name] = true
		}
	}
	return seen["SCALES"] && seen["SETCLIENTS"]
}

// assignment reads a line that sets a variable.
func assignment(line string) (name, value string, ok bool) {
	name, value, ok = strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "export "), "=")
	return name, value, ok && isName(name)
}

// Convert reads a config, and returns the experiment that does the same work. name is the file's,
// for errors and for the comment in the experiment. The error is a *yamldoc.Error with everything
// that tare cannot do.
func Convert(name string, data []byte) (Experiment, []yamldoc.Note, error) {
	c := converter{file: name, values: map[string]variable{}}
	c.read(string(data))
	e := c.experiment()
	if len(c.problems) > 0 {
		slices.SortStableFunc(c.problems, func(a, b yamldoc.Problem) int { return cmp.Compare(a.Line, b.Line) })
		const most = 10
		shown := min(len(c.problems), most)
		return Experiment{}, nil, &yamldoc.Error{Problems: c.problems[:shown], More: len(c.problems) - shown}
	}
	slices.SortStableFunc(c.notes, func(a, b yamldoc.Note) int { return cmp.Compare(a.Line, b.Line) })
	e.Source, e.Notes = name, c.notes
	return e, c.notes, nil
}

// A variable is what a line sets.
type variable struct {
	value    string
	line     int
	source   string // the line
	computed bool   // by the shell, so that the value is unknown
}

// given reports whether it has a value that is not empty.
func (v variable) given() bool { return v.computed || v.value != "" }

// read reads the variables. The last line that sets one counts, as in a shell.
func (c *converter) read(text string) {
	n := 0
	for line := range strings.Lines(text) {
		n++
		name, value, ok := assignment(line)
		if !ok {
			continue
		}
		v := variable{line: n, source: strings.TrimRight(line, "\r\n")}
		v.value, v.computed = unquote(value)
		c.values[name] = v
	}
}

// isName reports whether a shell takes s as the name of a variable.
func isName(s string) bool {
	return s != "" && (s[0] < '0' || s[0] > '9') && !strings.ContainsFunc(s, func(r rune) bool {
		return r != '_' && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') && (r < '0' || r > '9')
	})
}

// unquote is a value as the shell reads it, up to what it would have to compute.
func unquote(s string) (value string, computed bool) {
	end, closed := " \t;#", false
	if s != "" && (s[0] == '"' || s[0] == '\'') {
		end, s, closed = s[:1], s[1:], true
	}
	if i := strings.IndexAny(s, end); i >= 0 {
		s = s[:i]
	} else if closed {
		return "", true // it goes on in the next line
	}
	if end != "'" && strings.ContainsAny(s, "$`\\(") {
		return "", true
	}
	return s, false
}
