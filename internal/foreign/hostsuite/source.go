// Package hostsuite reads the results.json of a published shell script that compares hosts for Docker: idle
// memory and disk, container starts, sysbench, fio, iperf3, an image build, many services and compose.
//
// Values are found by the words of their names, and everything that is not recognised is named: what a
// value means is never guessed from its size.
package hostsuite

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/foreign"
)

// Source reads results of the suite.
func Source() foreign.Source {
	return foreign.Source{
		Name: "hostsuite", Doc: "(the results.json of the script that compares Docker hosts)", Read: read,
	}
}

func read(in *foreign.Input) ([]foreign.Set, error) {
	var sets []foreign.Set
	for _, f := range in.Files {
		if len(in.Files) > 1 && !strings.HasSuffix(f.Base, ".json") {
			continue // its log and its summary lie beside it
		}
		text, err := f.Whole()
		if err != nil {
			return nil, err
		}
		s, err := parse(text)
		if err != nil {
			return nil, &foreign.Error{File: f.Name, Err: err, Hint: "give the results.json that the script wrote"}
		}
		s.Found = f.Time
		for i := range s.Trials {
			s.Trials[i].Where = f.Name
		}
		sets = append(sets, *s)
	}
	return sets, nil
}

// parse makes the set of one file. The n-th values of lists belong to the n-th trial; what the script
// tells once is in the first.
func parse(text []byte) (*foreign.Set, error) {
	all, err := leaves(text)
	if err != nil {
		return nil, err
	}
	s := &foreign.Set{Workload: "host", Subject: "docker", Program: "hostsuite", Metrics: metrics()}
	p := parser{set: s, rules: rules()}
	for _, l := range all {
		p.add(l)
	}
	if len(s.Trials) == 0 {
		return nil, errors.New("there is no result of the suite in it")
	}
	for i := range s.Trials {
		s.Trials[i].Began = p.began
	}
	s.Notes = p.notes()
	return s, nil
}

// A parser fills a set.
type parser struct {
	set     *foreign.Set
	rules   []rule
	began   time.Time
	volumes []string // values that are called a rate and are none
	zeros   []string // values of 0
	taken   []string // values whose metric was read from another one
	unknown []string // values that were not recognised
}

// maxTrials is how many values of one metric are read from a list.
const maxTrials = 10_000

func (p *parser) add(l leaf) {
	words := l.words()
	if p.fact(l, words) {
		return
	}
	isMemory := slices.ContainsFunc(words, func(w string) bool { return slices.Contains(memoryWords(), w) })
	if isMemory && slices.Contains(words, "throughput") && words[len(words)-1] == "mibs" {
		p.volumes = appendNew(p.volumes, l.name())
		return
	}
	if onThreads(words) {
		words = append(words, "multi")
	}
	value, after, ok := amount(l.text)
	i := slices.IndexFunc(p.rules, func(r rule) bool { return r.fits(words) })
	if !ok || i < 0 || l.nth >= maxTrials {
		p.skip(l, ok)
		return
	}
	unit, ok := p.rules[i].kind.unit(after, words)
	if !ok {
		p.skip(l, true)
		return
	}
	for len(p.set.Trials) <= l.nth {
		p.set.Trials = append(p.set.Trials, foreign.Trial{})
	}
	t := &p.set.Trials[l.nth]
	metric := p.rules[i].metric
	_, taken := t.Values[metric]
	switch {
	case value == 0:
		p.zeros = appendNew(p.zeros, l.name())
	case taken:
		p.taken = appendNew(p.taken, l.name()+" ("+metric+")")
	default:
		t.Set(metric, value*unit)
	}
}

// skip remembers a number that is not read. Texts are no results.
func (p *parser) skip(l leaf, isNumber bool) {
	if isNumber {
		p.unknown = appendNew(p.unknown, l.name())
	}
}

func appendNew(all []string, one string) []string {
	if slices.Contains(all, one) || len(all) > maxTrials {
		return all
	}
	return append(all, one)
}

// fact takes what a value says of the machine and of the time.
func (p *parser) fact(l leaf, words []string) bool {
	has := func(of ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return slices.Contains(of, w) })
	}
	h := &p.set.Host
	if has("timestamp", "date") {
		if t, ok := moment(l.text); ok {
			p.began = t
		}
		return true
	}
	if !has("system", "info", "host", "hostname", "os", "kernel", "docker", "model", "version") {
		return false
	}
	keep := func(to *string) bool {
		if *to == "" {
			*to = bench.Reason(l.text)
		}
		return true
	}
	_, _, isNumber := amount(l.text)
	switch {
	case has("hostname"):
		return keep(&h.Hostname)
	case has("kernel"):
		return keep(&h.Kernel)
	case has("docker") && has("version"):
		return keep(&p.set.Version)
	case has("os", "distro", "distribution", "pretty"):
		return keep(&h.OS)
	case has("cpu") && has("model", "name"):
		return keep(&h.CPU)
	case has("cpu", "cpus") && has("cores", "count", "cpus", "threads") && isNumber:
		if n, err := strconv.Atoi(l.text); err == nil && h.CPUs == 0 && n > 0 && n < 1<<20 {
			h.CPUs = n
		}
		return true
	}
	return false
}

// moment reads a time as date -Iseconds, date +%s and others print it.
func moment(text string) (time.Time, bool) {
	for _, layout := range []string{
		time.RFC3339, time.DateTime, "2006-01-02T15:04:05", "20060102_150405", "20060102-150405",
	} {
		if t, err := time.Parse(layout, text); err == nil {
			return t.UTC(), true
		}
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && n > 1e9 && n < 1e11 {
		return time.Unix(n, 0).UTC(), true
	}
	return time.Time{}, false
}

// differing names the metrics that were read and are something else in tare.
func (p *parser) differing() (all []string) {
	for _, o := range otherwise() {
		if slices.ContainsFunc(p.set.Trials, func(t foreign.Trial) bool { _, ok := t.Values[o[0]]; return ok }) {
			all = append(all, fmt.Sprintf("%s (%s)", o[0], o[1]))
		}
	}
	return all
}

// shown is how many names of values a note lists.
const shown = 8

func (p *parser) notes() (all []foreign.Note) {
	if differing := p.differing(); differing != nil {
		all = append(all, foreign.Note{
			Code: foreign.CodeImported,
			Text: "called as in tare, and not quite the same: " + strings.Join(differing, ", "),
			Hint: "'tare run host-tools' comes nearest to what the script does: compare with that",
		})
	}
	names := func(of []string) string {
		text := strings.Join(of[:min(len(of), shown)], ", ")
		if more := len(of) - shown; more > 0 {
			text += fmt.Sprintf(" and %d more", more)
		}
		return text
	}
	if len(p.volumes) > 0 {
		all = append(all, foreign.Note{
			Code: foreign.CodeImported,
			Text: names(p.volumes) + " is how much sysbench moved and not how fast, though it is called throughput: " +
				"it was left out",
			Hint: "measure it with 'tare run memory --param tool=sysbench'",
		})
	}
	if len(p.zeros) > 0 {
		all = append(all, foreign.Note{
			Code: foreign.CodeImported,
			Text: "0, which the script writes for a test that failed: left out: " + names(p.zeros),
			Hint: "look for the reason in the script's log",
		})
	}
	if len(p.taken) > 0 {
		all = append(all, foreign.Note{
			Code: foreign.CodeImported,
			Text: "left out, because another value was read as the same metric: " + names(p.taken),
			Hint: "what is read stands in docs/import.md",
		})
	}
	if len(p.unknown) > 0 {
		all = append(all, foreign.Note{
			Code: foreign.CodeImported,
			Text: "not read, because it is unknown what it means or in which unit it is: " + names(p.unknown),
			Hint: "what is read stands in docs/import.md",
		})
	}
	return all
}
