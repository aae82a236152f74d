// Package fio reads the JSON of fio 3. A file becomes a run, and each of its jobs a trial.
package fio

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/foreign"
)

// Source reads what fio writes with --output-format=json or json+.
func Source() foreign.Source {
	return foreign.Source{Name: "fio", Doc: "(its output as json or json+)", Read: read}
}

const hint = "give what fio 3 wrote with --output-format=json or json+"

func read(in *foreign.Input) ([]foreign.Set, error) { return in.Each("result of fio", hint, readFile) }

// A document is one output of fio in a file.
type document struct {
	*foreign.Document
	Output
}

func readFile(f *foreign.File) ([]foreign.Set, error) {
	documents, err := f.Documents(hint)
	if err != nil {
		return nil, err
	}
	var all []document
	jobs := 0
	for i := range documents {
		d := document{Document: &documents[i]}
		switch err := d.Read(&d.Output); {
		case err != nil:
			return nil, err
		case d.Version == "":
			continue // it is of another program
		case !strings.HasPrefix(d.Version, "fio-3"):
			return nil, d.Errorf("tare reads fio 3, and this is %.40q", d.Version)
		}
		if jobs += len(d.Jobs); jobs > foreign.MaxTrials {
			return nil, d.Errorf("it has more than %d jobs", foreign.MaxTrials)
		}
		if n := len(all); n > 0 && d.continues(&all[n-1]) {
			all = all[:n-1]
		}
		all = append(all, d)
	}
	if jobs == 0 {
		return nil, nil
	}
	return newSet(all)
}

// continues reports whether a document tells of the same jobs as the one before it, a while later: with
// --status-interval, which is a second or more, fio prints what it has so far again and again. Jobs that began
// anew ran for as long as has passed, and so did not add it to what they had before.
func (d *document) continues(before *document) bool {
	if d.Printed <= 0 || len(d.Jobs) != len(before.Jobs) {
		return false
	}
	for i := range d.Jobs {
		if d.Jobs[i].Name != before.Jobs[i].Name || d.Jobs[i].ran() < before.Jobs[i].ran() {
			return false
		}
	}
	const slack = 500 // ms, for what fio does before and after its jobs
	then, now := before.ran(), d.ran()
	return then > slack && now-then >= d.Printed-before.Printed-slack
}

// ran is how long jobs made requests, in milliseconds; those of one group did so at the same time.
func (d *document) ran() (ms int64) {
	groups := map[int]int64{}
	for i := range d.Jobs {
		j := &d.Jobs[i]
		groups[j.Group] = max(groups[j.Group], j.ran())
	}
	for _, one := range groups {
		ms += one
	}
	return ms
}

func newSet(all []document) ([]foreign.Set, error) {
	s := foreign.Set{
		Workload: "disk", Subject: "disk", Program: "fio", Version: bench.Reason(all[0].Version), Metrics: metrics(),
	}
	if printed := all[0].Printed; printed > 0 && printed < 1<<47 {
		s.Found = time.UnixMilli(printed).UTC()
	}
	named := needNames(all)
	var notes noted
	for i := range all {
		d := &all[i]
		seen := map[string]int{}
		for k := range d.Jobs {
			j := &d.Jobs[k]
			t, err := j.trial(d.Global)
			if err != nil {
				return nil, d.Errorf("job %.80q: %w", j.Name, err)
			}
			t.Where = fmt.Sprintf("%s:%d", d.File, d.Line)
			if named {
				t.Levels = append(t.Levels, foreign.Label("job", numbered(j.Name, seen)))
			}
			s.Trials = append(s.Trials, t)
		}
		notes.add(d)
	}
	s.Notes = notes.notes()
	return []foreign.Set{s}, nil
}

// needNames reports whether jobs of one document were asked for the same thing, so that only their names
// tell them apart.
func needNames(all []document) bool {
	for i := range all {
		seen := map[string]bool{}
		for k := range all[i].Jobs {
			j := &all[i].Jobs[k]
			var key strings.Builder
			key.WriteString(j.option(all[i].Global, "rw"))
			for _, l := range j.levels(all[i].Global) {
				key.WriteString("\x00" + l.Key + "\x00" + l.Value)
			}
			if seen[key.String()] {
				return true
			}
			seen[key.String()] = true
		}
	}
	return false
}

// numbered is a name, with a number if it is not the first of that name.
func numbered(name string, seen map[string]int) string {
	if seen[name]++; seen[name] > 1 {
		return fmt.Sprintf("%s %d", name, seen[name])
	}
	return name
}

// noted is what a reader of the results must know.
type noted struct{ together, clones, trims, completions bool }

func (n *noted) add(d *document) {
	groups, same := map[int]bool{}, map[string]bool{}
	for i := range d.Jobs {
		j := &d.Jobs[i]
		n.trims = n.trims || j.Trim.Requests > 0
		for _, s := range []*Side{&j.Read, &j.Write, &j.Mixed} {
			n.completions = n.completions || s.Requests > 0 && s.Latency.Percentiles == nil && s.Completion.Percentiles != nil
		}
		clone := fmt.Sprint(j.Group, " ", j.Name)
		n.together, n.clones = n.together || groups[j.Group], n.clones || same[clone]
		groups[j.Group], same[clone] = true, true
	}
}

func (n *noted) notes() (all []foreign.Note) {
	add := func(is bool, text, hint string) {
		if is {
			all = append(all, foreign.Note{Code: foreign.CodeImported, Text: text, Hint: hint})
		}
	}
	add(n.together && !n.clones, "jobs of fio ran at the same time, so each is told what the others left it",
		"give each job the option stonewall")
	add(n.clones, "jobs of fio that are the same ran at the same time, and each is told alone",
		"give the job the option group_reporting to know what they do together")
	add(n.completions, "percentiles are of the time from the submission of a request on (clat), and not of the whole time",
		"run fio with --lat_percentiles=1")
	add(n.trims, "trims are not read", "")
	return all
}

// asked are the options under which a job was measured.
func asked() []string {
	return []string{
		"bs", "iodepth", "numjobs", "ioengine", "direct", "fsync", "fdatasync", "size", "runtime", "rate", "rate_iops",
		"directory", "filename",
	}
}

// option is one of a job's options, or of those that all jobs have.
func (j *Job) option(global map[string]string, name string) string {
	if v, ok := j.Options[name]; ok {
		return v
	}
	return global[name]
}

// levels are the options of a job. What they do not name is fio's default, and left out.
func (j *Job) levels(global map[string]string) (all []bench.Label) {
	for _, name := range asked() {
		if v := j.option(global, name); v != "" {
			all = append(all, foreign.Label(name, v))
		}
	}
	return all
}

// sides are what is told of a job, by the beginning of the names of its metrics. Reads and writes of a job
// that mixes them are another thing than those of a job that does not.
func (j *Job) sides(global map[string]string) map[string]*Side {
	rw, _, _ := strings.Cut(j.option(global, "rw"), ":") // such as randread:8
	switch {
	case rw == "":
		rw = "read" // as fio does
	case rw == "readwrite":
		rw = "rw"
	}
	if slices.Contains(pure(), rw) {
		return map[string]*Side{"disk." + rw: j.side(rw)}
	}
	if !slices.Contains(mixes(), rw) {
		return nil
	}
	if j.Mixed.Requests > 0 {
		return map[string]*Side{"disk." + rw: &j.Mixed}
	}
	return map[string]*Side{"disk." + rw + ".read": &j.Read, "disk." + rw + ".write": &j.Write}
}

// side is the one side of a job that only reads, or only writes.
func (j *Job) side(rw string) *Side {
	switch {
	case j.Mixed.Requests > 0:
		return &j.Mixed
	case strings.HasSuffix(rw, "write"):
		return &j.Write
	default:
		return &j.Read
	}
}
