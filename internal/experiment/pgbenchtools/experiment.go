package pgbenchtools

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/tare-bench/tare/internal/text/unit"
)

// An Experiment is the experiment that does the work of a config, as plain data.
type Experiment struct {
	Source string // the config's own name
	Notes  []Note // for the comment at the top

	Script      string // of tare
	Scales      []int
	Clients     []int
	Rates       []int // transactions per second; empty = as many as possible
	ClientRates []int // the same for each client
	Time        time.Duration
	Blocks      int
	Socket      bool     // a Unix socket, not TCP
	Reset       []string // a command before each trial; empty = none
}

// YAML writes the experiment as a file that can be planned and run, with the notes as a comment.
func (e Experiment) YAML() []byte {
	w := &writer{}
	w.comment("Written by tare from " + e.Source + ", a config of pgbench-tools.")
	w.comment("Differences in meaning, by the lines of that file:")
	w.line("#")
	for _, n := range e.Notes {
		w.comment("- " + n.String())
	}
	w.line("")
	w.line("name: pgbench-tools")
	w.line("workload: postgres")
	w.line("")
	w.line("factors:")
	w.line("  engine: auto-2")
	e.writeConditions(w)
	if e.Socket {
		w.line("spec:")
		w.line("  network: socket")
		w.line("")
	}
	w.line("params:")
	w.line("  parts: [load]")
	w.line("  script: %s", e.Script)
	w.line("  time: %s", duration(e.Time))
	w.line("")
	w.line("blocks: %d", e.Blocks)
	w.line("warmup: 0")
	w.line("timeouts: {trial: %s}", duration(e.Time+10*time.Minute))
	if len(e.Reset) > 0 {
		w.line("hooks:")
		w.line("  - {when: before-trial, do: command, argv: [%s]}", words(e.Reset))
	}
	return []byte(w.String())
}

// writeConditions writes what varies. A rate for each client belongs to the number of clients, so
// the two are one condition.
func (e Experiment) writeConditions(w *writer) {
	w.line("conditions:")
	w.line("  scale: [%s]", numbers(e.Scales))
	if len(e.ClientRates) == 0 {
		w.line("  clients: [%s]", numbers(e.Clients))
	} else {
		w.line("  clients:")
		for _, c := range e.Clients {
			for _, r := range e.ClientRates {
				w.line("    - {name: \"%d at %d\", params: {clients: %d, rate: %d}}", c, r, c, c*r)
			}
		}
	}
	if len(e.Rates) > 0 {
		w.line("  rate: [%s]", numbers(e.Rates))
	}
	w.line("")
}

// duration writes a time without a space, such as "1m30s".
func duration(d time.Duration) string { return strings.ReplaceAll(unit.FormatDuration(d), " ", "") }

func numbers(all []int) string {
	texts := make([]string, len(all))
	for i, n := range all {
		texts[i] = strconv.Itoa(n)
	}
	return strings.Join(texts, ", ")
}

// words writes a list of texts as YAML, each in quotes.
func words(all []string) string {
	texts := make([]string, len(all))
	for i, s := range all {
		texts[i] = `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(shown(s)) + `"`
	}
	return strings.Join(texts, ", ")
}

// shown replaces what cannot be shown: a file may be called anything.
func shown(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) && !unicode.IsSpace(r) {
			return '?'
		}
		return r
	}, s)
}

// A writer writes lines.
type writer struct{ strings.Builder }

func (w *writer) line(format string, args ...any) {
	if len(args) == 0 {
		w.WriteString(format + "\n")
		return
	}
	fmt.Fprintf(w, format+"\n", args...)
}

// comment writes a paragraph in lines of at most 100 characters.
func (w *writer) comment(text string) {
	const most = 98
	indent := ""
	if strings.HasPrefix(text, "- ") {
		indent = "  "
	}
	var line []string
	width := 0
	for word := range strings.FieldsSeq(shown(text)) {
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
