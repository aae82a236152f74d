// Package pgbench reads what pgbench printed, of any version from 9.0 on, and its logs.
package pgbench

import (
	"bytes"
	"cmp"
	"errors"
	"path"
	"regexp"
	"slices"

	"github.com/tare-bench/tare/internal/foreign"
)

// Source reads outputs of pgbench and the logs of -l and --aggregate-interval.
func Source() foreign.Source {
	return foreign.Source{Name: "pgbench", Doc: "(what it printed, and its logs)", Read: read}
}

// A LogFiles is the log files of one run of pgbench: one of each of its threads.
type LogFiles struct {
	Name  string // of the first of them, without its thread
	Files []foreign.File
}

func read(in *foreign.Input) ([]foreign.Set, error) {
	var outputs []*Output
	logs, others := SplitLogs(in.Files)
	for _, f := range others {
		all, err := ReadOutputs(&f)
		if err != nil {
			return nil, err
		}
		if len(all) == 0 && len(in.Files) == 1 {
			return nil, foreign.Errorf(f.Name, 0, "give what pgbench printed, with its log files or without",
				"there is no result of pgbench in it")
		}
		outputs = append(outputs, all...)
	}
	read, err := readLogs(logs)
	if err != nil {
		return nil, err
	}
	if err := match(outputs, read); err != nil {
		return nil, err
	}
	sets, err := newSets(outputs, read)
	for i := range sets {
		sets[i].Found = in.Written()
	}
	return sets, err
}

// A readLog is a log with its name.
type readLog struct {
	*Log
	name string
	used bool
}

func readLogs(files []LogFiles) ([]*readLog, error) {
	var all []*readLog
	for _, f := range files {
		l, err := f.Read()
		if err != nil {
			return nil, err
		}
		all = append(all, &readLog{Log: l, name: f.Name})
	}
	return all, nil
}

// Read reads the files of a log together.
func (f *LogFiles) Read() (*Log, error) {
	l := NewLog()
	for _, file := range f.Files {
		if err := l.readFile(&file); err != nil {
			return nil, err
		}
	}
	return l, nil
}

func (l *Log) readFile(f *foreign.File) error {
	r, err := f.Open()
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }() // it was only read
	err = l.Read(r)
	if wrong := (*errLine)(nil); errors.As(err, &wrong) {
		return foreign.Errorf(f.Name, wrong.n, damagedHint, "%s", wrong.why)
	}
	return err
}

// newSets makes a set of all results, and one of what made tables.
func newSets(outputs []*Output, logs []*readLog) ([]foreign.Set, error) {
	results := foreign.Set{
		Workload: Workload, Subject: Subject, Program: "pgbench", Conditions: Conditions(), Metrics: Metrics(),
	}
	made := results
	made.Doc, made.Conditions, made.Metrics = "how long pgbench took to make its tables", []string{"scale"}, InitMetrics()
	for _, o := range outputs {
		if o.Init != nil {
			made.Trials = append(made.Trials, InitTrial(o))
			continue
		}
		t, err := Trial(o, o.log)
		if err != nil {
			return nil, &foreign.Error{File: o.File, Line: o.Line, Err: err}
		}
		results.Version = cmp.Or(results.Version, o.Server())
		results.Trials = append(results.Trials, t)
	}
	for _, l := range logs {
		if l.used {
			continue
		}
		t, err := Trial(nil, l.Log)
		if err != nil {
			return nil, &foreign.Error{File: l.name, Err: err}
		}
		t.Where = l.name
		results.Trials = append(results.Trials, t)
	}
	results.Notes = notes(results.Trials, outputs, logs)
	return slices.DeleteFunc([]foreign.Set{results, made}, func(s foreign.Set) bool { return len(s.Trials) == 0 }), nil
}

// match gives each output its log: the only one of its directory, or the one with as many
// transactions. A log may have less than all of them if pgbench had logged a sample, or without its
// last interval.
func match(outputs []*Output, logs []*readLog) error {
	if len(outputs) == 0 {
		return nil
	}
	for _, l := range logs {
		fits := candidates(outputs, logs, l)
		switch len(fits) {
		case 1:
			fits[0].log, l.used = l.Log, true
		case 0:
			return foreign.Errorf(l.name, 0, "import the log alone, or with what pgbench printed with it",
				"the log has %d transactions, and no result has as many", l.Transactions)
		default:
			return foreign.Errorf(l.name, 0, "give each output a directory with its log, or import them one by one",
				"%d results have as many transactions as the log, %d", len(fits), l.Transactions)
		}
	}
	return nil
}

// candidates are the outputs that a log can be of.
func candidates(outputs []*Output, logs []*readLog, l *readLog) []*Output {
	var beside, same []*Output
	for _, o := range outputs {
		if o.Aborted != "" || o.Init != nil || o.log != nil {
			continue
		}
		if path.Dir(o.File) == path.Dir(l.name) {
			beside = append(beside, o)
		}
		if o.Transactions == l.Transactions {
			same = append(same, o)
		}
	}
	alone := true
	for _, other := range logs {
		alone = alone && (other == l || path.Dir(other.name) != path.Dir(l.name))
	}
	if alone && len(beside) == 1 && l.Transactions <= beside[0].Transactions {
		return beside
	}
	return same
}

// notes say what the results lack.
func notes(trials []foreign.Trial, outputs []*Output, logs []*readLog) (all []foreign.Note) {
	add := func(is bool, text, hint string) {
		if is {
			all = append(all, foreign.Note{Code: foreign.CodeImported, Text: text, Hint: hint})
		}
	}
	partly := func(o *Output) bool { return o.log != nil && !o.log.Aggregated && o.log.Transactions < o.Transactions }
	add(len(outputs) > 0 && len(logs) == 0 && len(trials) > 0,
		"pgbench printed means only, so there are no percentiles",
		"run pgbench with -l, and import the log files with the output")
	add(slices.ContainsFunc(logs, func(l *readLog) bool { return l.Aggregated }),
		"an aggregated log has only means and extremes, so there are no percentiles",
		"run pgbench with -l alone, without --aggregate-interval")
	add(slices.ContainsFunc(outputs, partly),
		"some logs have only a part of the transactions, so the percentiles are of that part",
		"run pgbench without --sampling-rate")
	add(len(outputs) == 0,
		"a log names neither script nor scale, and its rate is from the first transaction or interval in it to the last",
		"import what pgbench printed with it")
	return all
}

// thread is the end of the name of a log file of all threads but the first: PREFIX.PID.THREAD.
var thread = regexp.MustCompile(`^(.+\.\d+)\.\d+$`)

// SplitLogs separates log files, which it groups by run, from all other files.
func SplitLogs(files []foreign.File) (logs []LogFiles, others []foreign.File) {
	for _, f := range files {
		if !isLog(&f) {
			others = append(others, f)
			continue
		}
		name := f.Base
		if m := thread.FindStringSubmatch(name); m != nil {
			name = m[1]
		}
		name = path.Join(f.Dir, name)
		i := slices.IndexFunc(logs, func(l LogFiles) bool { return l.Name == name })
		if i < 0 {
			i, logs = len(logs), append(logs, LogFiles{Name: name})
		}
		logs[i].Files = append(logs[i].Files, f)
	}
	return logs, others
}

// isLog reports whether a file begins like a log.
func isLog(f *foreign.File) bool {
	begin, err := f.Begins(256)
	line, _, whole := bytes.Cut(begin, []byte("\n"))
	var fields [maxFields]int64
	n, _, ok := split(line, &fields)
	return err == nil && whole && ok && n >= 6
}
