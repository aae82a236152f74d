package pgbench

import (
	"cmp"
	"fmt"
	"math"
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/tare-bench/tare/internal/foreign"
)

// An Output is what one run of pgbench printed at its end. Numbers that it did not print are NaN,
// or 0 where they are counts. Times are in seconds.
type Output struct {
	File string
	Line int // where it begins

	Script           string // such as "select-only"; the name of a file without its end
	Scale            int
	Clients, Threads int
	Mode             string // of queries, such as "prepared"
	Duration         time.Duration
	Transactions     int64 // that ended well
	PerClient        int64 // that were asked for of each client
	Skipped, Failed  int64
	Retries          int64
	Mean, StdDev     float64 // of times
	Lag              float64 // mean delay of the start behind the schedule; NaN without a rate
	Connect          float64 // mean time to connect, where each transaction had a connection of its own
	ConnectAll       float64 // until all clients were connected, where connections stayed open
	Reconnects       bool    // each transaction had a connection of its own
	Rate             float64 // transactions in each second, without the time to connect where that is known
	Version          string  // of pgbench, and of the server if that differs
	Limited          bool    // it had a rate
	// Aborted is why the result is incomplete, in pgbench's words; empty = it is whole.
	Aborted string
	// Init is the time of each step of 'pgbench -i', which measures nothing else; nil for all others.
	Init []Step

	whole bool // it has its rate
	log   *Log // its log; nil = none
}

// A Step is one step of the making of the tables.
type Step struct {
	Name string // such as "primary keys"; "all" is the sum of them
	Time float64
}

func newOutput(file string, line int) *Output {
	nan := math.NaN()
	return &Output{File: file, Line: line, Mean: nan, StdDev: nan, Lag: nan, Connect: nan, ConnectAll: nan, Rate: nan}
}

// Where is the place of the output, for messages.
func (o *Output) Where() string { return fmt.Sprintf("%s:%d", o.File, o.Line) }

// maxOutputs is how many results one file may have.
const maxOutputs = 100_000

// ReadOutputs reads every result of pgbench in a file, of any version from 9.0 on. There may be
// other lines between them. A result without its end is one that was aborted.
func ReadOutputs(f *foreign.File) ([]*Output, error) {
	p := &outputs{file: f.Name}
	if err := f.Lines(p.line); err != nil {
		return nil, err
	}
	p.close()
	return p.all, nil
}

// outputs are the results of one file while it is read.
type outputs struct {
	file    string
	all     []*Output
	current *Output // nil between two
	last    *Output // the one before, of which errors can still be told
	version string
	trouble string // the first error since the last result
}

func (p *outputs) line(n int, b []byte) error {
	if len(b) > 0 && (b[0] == ' ' || b[0] == '\t') {
		return nil // of one script, or one statement
	}
	line := strings.TrimRight(string(b), "\r")
	switch {
	case p.errorLine(line):
		return nil
	case strings.HasPrefix(line, "pgbench ("):
		p.version = versionOf(line)
		return nil
	case strings.HasPrefix(line, "done in "):
		return p.initialised(n, line)
	case strings.HasPrefix(line, "transaction type: "):
		if err := p.begin(n); err != nil {
			return err
		}
	}
	if p.current == nil {
		return nil
	}
	name, value := cutPair(line)
	if name == "tps" {
		return p.rate(n, value)
	}
	set := setter(name)
	if set == nil {
		return nil
	}
	if err := set(p.current, value); err != nil {
		return foreign.Errorf(p.file, n, damagedHint, "%q is no %s", value, name)
	}
	return nil
}

// packaged is what packagers add to a version.
var packaged = regexp.MustCompile(` \([^()]*\)`)

// versionOf reads "pgbench (15.18 (Debian 15.18-0))" and "pgbench (14.5, server 13.8)".
func versionOf(line string) string {
	inside := strings.TrimSuffix(strings.TrimPrefix(line, "pgbench ("), ")")
	return packaged.ReplaceAllString(inside, "")
}

// Server is the version of the server, if pgbench printed one.
func (o *Output) Server() string {
	own, server, differs := strings.Cut(o.Version, ", server ")
	if differs {
		return server
	}
	return own
}

// damagedHint is what to do about a file that is not as pgbench wrote it.
const damagedHint = "import it as pgbench printed it, or leave this file out"

// errorLine keeps what pgbench says of a failure, and reports whether it does.
func (p *outputs) errorLine(line string) bool {
	text := trouble(line)
	switch {
	case text == "":
		return false
	case !strings.HasPrefix(text, incomplete):
		p.trouble = cmp.Or(p.trouble, text)
	case p.current == nil && p.last != nil:
		p.last.Aborted = cmp.Or(p.last.Aborted, text)
	}
	return true
}

// incomplete is what pgbench says below a result of which clients have given up.
const incomplete = "Run was aborted"

// trouble is what a line says of a failure; empty if it says nothing of one.
func trouble(line string) string {
	for _, mark := range []string{"pgbench: error: ", "pgbench: fatal: ", "pgbench:error: ", "pgbench:fatal: "} {
		if text, ok := strings.CutPrefix(line, mark); ok {
			return strings.TrimSpace(text)
		}
	}
	isClient := strings.HasPrefix(line, "Client ") || strings.HasPrefix(line, "client ")
	isConnection := strings.HasPrefix(line, "connection to database ") ||
		strings.HasPrefix(line, "Connection to database ")
	if strings.HasPrefix(line, incomplete) || isClient && strings.Contains(line, " aborted in ") ||
		isConnection && strings.Contains(line, " failed") {
		return strings.TrimSpace(line)
	}
	return ""
}

// begin begins a result.
func (p *outputs) begin(n int) error {
	p.finish()
	if len(p.all) >= maxOutputs {
		return p.tooMany(n)
	}
	p.current = newOutput(p.file, n)
	p.current.Version, p.current.Aborted = p.version, p.trouble
	p.trouble = ""
	p.all = append(p.all, p.current)
	return nil
}

// finish ends a result that lacks its end.
func (p *outputs) finish() {
	if p.current != nil && !p.current.whole && p.current.Aborted == "" {
		p.current.Aborted = "the output ends before the rate"
	}
	p.current = nil
}

func (p *outputs) tooMany(n int) error {
	return foreign.Errorf(p.file, n, "split the file", "it has more than %d results", maxOutputs)
}

// close ends the file. What pgbench said of a failure that no result followed is a result by itself.
func (p *outputs) close() {
	p.finish()
	if p.trouble != "" && len(p.all) < maxOutputs {
		o := newOutput(p.file, 1)
		o.Aborted, o.Version = p.trouble, p.version
		p.all, p.trouble = append(p.all, o), ""
	}
}

// rate reads a rate, with which a result ends. Until version 13 there are two, of which the second
// leaves out the time to connect.
func (p *outputs) rate(n int, value string) error {
	text, what, _ := strings.Cut(value, " ")
	v, err := parse(text)
	if err != nil {
		return foreign.Errorf(p.file, n, damagedHint, "%q is no rate", value)
	}
	o := p.current
	o.Rate, o.whole = v, true
	if strings.Contains(what, "reconnection") {
		o.Reconnects = true
	}
	if strings.Contains(what, "including connections") {
		return nil // the other one follows
	}
	p.last, p.current = o, nil
	return nil
}

// initialised reads the last line of pgbench -i, of version 13 or later:
//
//	done in 17.24 s (drop tables 0.03 s, create tables 0.00 s, …).
func (p *outputs) initialised(n int, line string) error {
	p.finish()
	o := newOutput(p.file, n)
	all, steps, _ := strings.Cut(strings.TrimPrefix(line, "done in "), " s (")
	total, err := parse(strings.TrimSuffix(all, " s."))
	if err != nil {
		return nil // another program's line
	}
	o.Script, o.whole, o.Version = "initialise", true, p.version
	if len(p.all) >= maxOutputs {
		return p.tooMany(n)
	}
	o.Init = []Step{{"all", total}}
	for step := range strings.SplitSeq(strings.TrimSuffix(steps, ")."), ", ") {
		words := strings.Fields(strings.TrimSuffix(step, " s"))
		if len(words) < 2 {
			continue
		}
		if v, err := parse(words[len(words)-1]); err == nil && len(o.Init) < 20 {
			o.Init = append(o.Init, Step{strings.Join(words[:len(words)-1], " "), v})
		}
	}
	p.all = append(p.all, o)
	return nil
}

// cutPair reads "name: value" and "name = value".
func cutPair(line string) (name, value string) {
	colon, equal := strings.Index(line, ": "), strings.Index(line, " = ")
	switch {
	case colon >= 0 && (equal < 0 || colon < equal):
		return line[:colon], line[colon+2:]
	case equal >= 0:
		return line[:equal], line[equal+3:]
	}
	return "", ""
}

// setter returns what reads the value behind some words; nil if it is not read.
func setter(words string) func(o *Output, value string) error {
	switch words {
	case "transaction type":
		return func(o *Output, v string) error { o.Script = scriptName(v); return nil }
	case "scaling factor":
		return func(o *Output, v string) error { return whole(&o.Scale, v) }
	case "query mode":
		return func(o *Output, v string) error { o.Mode = strings.ToValidUTF8(v, "?"); return nil }
	case "number of clients":
		return func(o *Output, v string) error { return whole(&o.Clients, v) }
	case "number of threads":
		return func(o *Output, v string) error { return whole(&o.Threads, v) }
	case "duration":
		return duration
	case "latency average":
		return mean
	case "latency stddev":
		return func(o *Output, v string) error { return milliseconds(&o.StdDev, v) }
	case "initial connection time":
		return func(o *Output, v string) error { return milliseconds(&o.ConnectAll, v) }
	case "average connection time":
		return func(o *Output, v string) error { return milliseconds(&o.Connect, v) }
	case "rate limit schedule lag":
		return lag
	case "number of failed transactions":
		return func(o *Output, v string) error { return count(&o.Failed, v) }
	case "total number of retries":
		return func(o *Output, v string) error { return count(&o.Retries, v) }
	case "number of transactions per client":
		return func(o *Output, v string) error { return count(&o.PerClient, v) }
	case "number of transactions skipped":
		return func(o *Output, v string) error { return count(&o.Skipped, v) }
	case "number of transactions actually processed":
		return func(o *Output, v string) error { return count(&o.Transactions, v) }
	}
	return nil
}

// scriptName is what a script is called: by pgbench, in the words of all versions, or the name of
// its file.
func scriptName(v string) string {
	switch v {
	case "TPC-B (sort of)", "<builtin: TPC-B (sort of)>":
		return "tpcb-like"
	case "Update only pgbench_accounts", "Update only accounts", "<builtin: simple update>":
		return "simple-update"
	case "SELECT only", "<builtin: select only>":
		return "select-only"
	case "Custom query":
		return "custom"
	case "multiple scripts":
		return "several"
	}
	name := strings.TrimSuffix(path.Base(strings.ReplaceAll(v, `\`, "/")), ".sql")
	const most = 64
	return strings.ToValidUTF8(name[:min(len(name), most)], "?")
}

func whole(to *int, v string) error {
	n, err := strconv.Atoi(v)
	if err == nil && n < 0 {
		err = strconv.ErrRange
	}
	*to = n
	return err
}

// count reads the first number of a value such as "12/100 (0.1 %)".
func count(to *int64, v string) error {
	end := strings.IndexFunc(v, func(r rune) bool { return r < '0' || r > '9' })
	if end >= 0 {
		v = v[:end]
	}
	n, err := strconv.ParseInt(v, 10, 64)
	*to = n
	return err
}

func milliseconds(to *float64, v string) error {
	text, _, _ := strings.Cut(v, " ms")
	x, err := parse(text)
	*to = x / 1e3
	return err
}

// mean reads the mean of the times. If transactions failed, and pgbench had not measured each, it is
// of them too: then nothing is known of those that ended well.
func mean(o *Output, v string) error {
	if strings.Contains(v, "including failures") {
		return nil
	}
	return milliseconds(&o.Mean, v)
}

func duration(o *Output, v string) error {
	n, err := strconv.Atoi(strings.TrimSuffix(v, " s"))
	if err == nil && (n < 0 || n > 1e8) {
		err = strconv.ErrRange
	}
	o.Duration = time.Duration(n) * time.Second
	return err
}

// lag reads "avg 1.234 (max 5.678) ms".
func lag(o *Output, v string) error {
	o.Limited = true
	text, _, _ := strings.Cut(strings.TrimPrefix(v, "avg "), " ")
	x, err := parse(text)
	o.Lag = x / 1e3
	return err
}

// parse reads a number that is finite and not negative.
func parse(s string) (float64, error) {
	v, err := strconv.ParseFloat(s, 64)
	if err == nil && (math.IsNaN(v) || math.IsInf(v, 0) || v < 0) {
		return 0, strconv.ErrRange
	}
	return v, err
}
