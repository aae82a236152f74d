package bucketbench

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/tare-bench/tare/internal/text/unit"
)

// An Experiment is the experiment that does the work of a file for
// bucketbench, as plain data.
type Experiment struct {
	Name   string // empty where the file has none
	Source string // the file's own name
	Notes  []Note // for the comment at the top

	Engines     []Engine // at least one, with names that differ
	Concurrency []int    // rising
	Image       string
	Argv        []string      // empty = the image's own program
	Network     string        // empty = tare's default
	Operations  []string      // of one container, in this order
	Grace       time.Duration // of the operation stop; 0 where there is none
	Operation   time.Duration // the longest time for one operation
	Trial       time.Duration // the longest time for one trial
}

// An Engine is one of those compared.
type Engine struct {
	Name       string
	Driver     string // the kind of tare's engine
	Option     string // of the driver; empty = none
	Value      string // of the option
	Iterations int    // containers in each lane, one after the other
	Threads    int    // the most lanes for this engine
}

// YAML writes the experiment as a file that can be planned and run, with the
// notes as a comment.
func (e Experiment) YAML() []byte {
	w := &writer{}
	w.comment("Written by tare from the bucketbench file " + e.Source + ".")
	w.comment("Differences in meaning, by the lines of that file:")
	w.line("#")
	for _, n := range e.Notes {
		w.comment("- " + n.String())
	}
	w.line("")
	if e.Name != "" {
		w.line("name: %s", quoted(e.Name))
	}
	w.line("workload: throughput")
	w.line("")
	e.writeEngines(w)
	e.writeConcurrency(w)
	e.writeSpec(w)
	e.writeParams(w)
	return []byte(w.String())
}

func (e Experiment) writeEngines(w *writer) {
	w.line("engines:")
	for _, engine := range e.Engines {
		option := ""
		if engine.Option != "" {
			option = ", " + engine.Option + ": " + quoted(engine.Value)
		}
		w.line("  %s: {driver: %s%s}", engine.Name, engine.Driver, option)
	}
	w.line("")
	w.line("factors:")
	w.line("  engine:")
	for _, engine := range e.Engines {
		if e.sameIterations() {
			w.line("    - %s", engine.Name)
		} else {
			w.line("    - {name: %s, engine: %s, params: {iterations: %d}}", engine.Name, engine.Name, engine.Iterations)
		}
	}
}

func (e Experiment) sameIterations() bool {
	return !slices.ContainsFunc(e.Engines, func(o Engine) bool { return o.Iterations != e.Engines[0].Iterations })
}

// writeConcurrency repeats the comparison under each number of lanes, without
// those engines whose drivers had fewer.
func (e Experiment) writeConcurrency(w *writer) {
	w.line("conditions:")
	w.line("  concurrency: [%s]", numbers(e.Concurrency))
	exclude := false
	for _, engine := range e.Engines {
		i := slices.IndexFunc(e.Concurrency, func(n int) bool { return n > engine.Threads })
		if i < 0 {
			continue
		}
		if !exclude {
			w.line("exclude:")
			exclude = true
		}
		w.line("  - {engine: %s, concurrency: [%s]}", engine.Name, numbers(e.Concurrency[i:]))
	}
	w.line("")
}

func (e Experiment) writeSpec(w *writer) {
	w.line("spec:")
	w.line("  image: %s", quoted(e.Image))
	if len(e.Argv) > 0 {
		words := make([]string, len(e.Argv))
		for i, a := range e.Argv {
			words[i] = quoted(a)
		}
		w.line("  argv: [%s]", strings.Join(words, ", "))
	}
	if e.Network != "" {
		w.line("  network: %s", e.Network)
	}
	w.line("")
}

func (e Experiment) writeParams(w *writer) {
	w.line("params:")
	if e.sameIterations() {
		w.line("  iterations: %d", e.Engines[0].Iterations)
	}
	w.line("  operations: [%s]", strings.Join(e.Operations, ", "))
	if e.Grace > 0 {
		w.line("  grace: %s", duration(e.Grace))
	}
	w.line("")
	w.line("timeouts: {trial: %s, operation: %s}", duration(e.Trial), duration(e.Operation))
}

// duration writes a time without a space, such as "1m30s".
func duration(d time.Duration) string {
	return strings.ReplaceAll(unit.FormatDuration(d), " ", "")
}

func numbers(all []int) string {
	texts := make([]string, len(all))
	for i, n := range all {
		texts[i] = strconv.Itoa(n)
	}
	return strings.Join(texts, ", ")
}

// plain is text that YAML takes for itself, whatever stands around it.
var plain = regexp.MustCompile(`^[A-Za-z/][A-Za-z0-9._/-]*$`)

// quoted writes a line of text as YAML, in quotes where they are needed.
func quoted(s string) string {
	switch strings.ToLower(s) {
	case "null", "true", "false", "yes", "no", "on", "off", "y", "n":
	default:
		if plain.MatchString(s) {
			return s
		}
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

// A writer writes lines.
type writer struct{ strings.Builder }

func (w *writer) line(format string, args ...any) {
	fmt.Fprintf(w, format+"\n", args...)
}

// comment writes a paragraph in lines of at most 100 characters, all of which
// can be shown: a file may be called anything.
func (w *writer) comment(text string) {
	const most = 98
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) && !unicode.IsSpace(r) {
			return '?'
		}
		return r
	}, text)
	indent := ""
	if strings.HasPrefix(text, "- ") {
		indent = "  "
	}
	var line []string
	width := 0
	for word := range strings.FieldsSeq(text) {
		n := utf8.RuneCountInString(word)
		if width > 0 && width+1+n > most {
			w.line("# %s", strings.Join(line, " "))
			line, width = []string{indent + word}, len(indent)+n
			continue
		}
		line, width = append(line, word), width+1+n
	}
	w.line("# %s", strings.Join(line, " "))
}
