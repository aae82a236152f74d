// Package ab reads what ApacheBench 2.3 printed. A file becomes a run, and each result in it a trial.
package ab

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/foreign"
)

// Source reads what ab prints.
func Source() foreign.Source {
	return foreign.Source{Name: "ab", Doc: "(what it printed)", Read: read}
}

const hint = "give what ab printed, from \"This is ApacheBench\" on"

func read(in *foreign.Input) ([]foreign.Set, error) { return in.Each("result of ab", hint, readFile) }

// banner begins every output of ab.
var banner = []byte("This is ApacheBench, Version ")

func readFile(f *foreign.File) ([]foreign.Set, error) {
	text, err := f.Whole()
	if err != nil {
		return nil, err
	}
	s := foreign.Set{Workload: "http", Subject: "server", Program: "ab", Metrics: metrics()}
	rounded := false
	line := 1
	for {
		before := bytes.Index(text, banner)
		if before < 0 {
			break
		}
		line, text = line+bytes.Count(text[:before], []byte("\n")), text[before:]
		if s.Version == "" {
			s.Version = version(text)
		}
		end := len(text)
		if next := bytes.Index(text[len(banner):], banner); next >= 0 {
			end = next + len(banner)
		}
		t, isRounded, err := newTrial(text[:end])
		if err != nil {
			return nil, foreign.Errorf(f.Name, line, hint, "%w", err)
		}
		t.Where, rounded = fmt.Sprintf("%s:%d", f.Name, line), rounded || isRounded
		if s.Trials = append(s.Trials, t); len(s.Trials) > foreign.MaxTrials {
			return nil, foreign.Errorf(f.Name, line, "import a part of it at a time", "it has more than %d results",
				foreign.MaxTrials)
		}
		line, text = line+bytes.Count(text[:end], []byte("\n")), text[end:]
	}
	if len(s.Trials) == 0 {
		return nil, nil
	}
	s.Notes = notes(s.Trials, rounded)
	return []foreign.Set{s}, nil
}

// version is the word after the banner.
func version(text []byte) string {
	word, _, _ := bytes.Cut(text[len(banner):], []byte(" "))
	line, _, _ := bytes.Cut(word, []byte("\n"))
	return bench.Reason(string(line))
}

// newTrial makes a trial of one output. Without the line that says how long it took, ab gave up.
func newTrial(text []byte) (t foreign.Trial, rounded bool, err error) {
	if !elapsed.Match(text) {
		return foreign.Trial{Failed: gaveUp(text)}, false, nil
	}
	r, lacks := Parse(text)
	if lacks != "" {
		return t, false, fmt.Errorf("the result has no %s", lacks)
	}
	t = r.trial()
	return t, !r.Exact && t.Failed == "", nil
}

// reason is why ab gave up. It writes that to stderr, sometimes behind what it writes to stdout.
var reason = regexp.MustCompile(`(?:apr_[a-z_]+|SSL [a-z ]+|ab): [^\n]+`)

// gaveUp is the reason of an output without a result.
func gaveUp(text []byte) string {
	if found := reason.Find(text); found != nil {
		return bench.Reason(string(found))
	}
	return "ab printed no result"
}

// The names of the metrics are those of the workload http.
const (
	rate     = "http.rate"
	failures = "http.failed"
	times    = "http.time"
)

// percentiles are those that are read, if at least minTail requests are beyond.
func percentiles() []int { return []int{50, 90, 99} }

const minTail = 10

// trial makes a trial of a result. ab's times include those of failed requests, so there are none if any
// failed.
func (r *Result) trial() foreign.Trial {
	t := foreign.Trial{Levels: r.levels(), Elapsed: time.Duration(min(r.Elapsed, 1e8) * float64(time.Second))}
	if r.Good() == 0 {
		t.Failed = fmt.Sprintf("none of %.0f requests got a good answer", r.Complete)
		return t
	}
	for name, v := range map[string]float64{
		rate: r.Good() / r.Elapsed, "http.transfer": r.Bytes / r.Elapsed, "http.requests": r.Complete, failures: r.Failed,
		failures + ".status": r.Status, failures + ".connect": r.Connect, failures + ".read": r.Read,
		failures + ".length": r.Length, "http.document": r.Document,
	} {
		t.Set(name, v)
	}
	if r.Failed > 0 {
		return t
	}
	t.Set(times+".mean", r.Mean)
	for _, p := range percentiles() {
		if v, ok := r.Times[p]; ok && v > 0 && r.Complete*float64(100-p)/100 >= minTail {
			t.Set(fmt.Sprintf("%s.p%d", times, p), v)
		}
	}
	if v := r.Times[100]; v > 0 {
		t.Set(times+".max", v)
	}
	return t
}

func (r *Result) levels() (all []bench.Label) {
	keepAlive := "no"
	if r.KeepAlive {
		keepAlive = "yes"
	}
	all = []bench.Label{
		foreign.Label("path", r.Path),
		{Key: "connections", Value: strconv.FormatFloat(r.Concurrency, 'f', -1, 64)},
		{Key: "keepalive", Value: keepAlive},
		foreign.Label("host", r.Host),
		foreign.Label("software", r.Server),
	}
	if r.TLS != "" {
		all = append(all, foreign.Label("tls", r.TLS))
	}
	return all
}

// notes say what the results lack.
func notes(trials []foreign.Trial, rounded bool) (all []foreign.Note) {
	add := func(is bool, text, hint string) {
		if is {
			all = append(all, foreign.Note{Code: foreign.CodeImported, Text: text, Hint: hint})
		}
	}
	some := false
	for _, t := range trials {
		some = some || t.Values[failures] > 0
	}
	add(some, "where requests failed there are no times, because ab's times include those of failed requests", "")
	add(rounded, "ab printed percentiles in whole milliseconds: those that are 0 were left out",
		"pipe them: ab -e /dev/stdout … | tare import --from ab")
	return all
}

func metrics() []bench.Metric {
	m := func(name, title, unit string, better bench.Direction, scale bench.Scale, doc string) bench.Metric {
		return bench.Metric{
			Name: name, Title: title, Unit: unit, Better: better, Role: bench.Detail, Scale: scale, Doc: doc,
		}
	}
	const lower = bench.Lower
	all := []bench.Metric{
		m(rate, "requests per second", "1/s", bench.Higher, bench.Ratio, "Requests that got a good answer, per second."),
		m("http.transfer", "transfer rate", "B/s", bench.Higher, bench.Ratio,
			"Bytes of all answers, headers and bodies, per second."),
		m("http.requests", "requests", "1", bench.Neither, bench.Difference, "Requests that ended, good and failed ones."),
		m(failures, "failed requests", "1", lower, bench.Difference, "Requests that got no good answer."),
	}
	for _, f := range []struct{ kind, what string }{
		{"connect", "because no connection could be made"},
		{"read", "because the connection broke"},
		{"length", "because the answer's length was not that of the first"},
		{"status", "because the status was not 200 to 299"},
	} {
		all = append(all,
			m(failures+"."+f.kind, "failed: "+f.kind, "1", lower, bench.Difference, "Failed requests "+f.what+"."))
	}
	all = append(all, m("http.document", "response size", "B", bench.Neither, bench.Difference,
		"Bytes in the body of the first answer."))
	const span = "from the beginning of the request, with its connection if it needed a new one, to the end of its answer"
	all = append(all, m(times+".mean", "time, mean", "s", lower, bench.Ratio, "Mean time "+span+"."))
	for _, p := range percentiles() {
		all = append(all, m(fmt.Sprintf("%s.p%d", times, p), fmt.Sprintf("time, p%d", p), "s", lower, bench.Ratio,
			fmt.Sprintf("%dth percentile of the times %s.", p, span)))
	}
	all = append(all, m(times+".max", "time, longest", "s", lower, bench.Ratio, "Longest time "+span+"."))
	for i := range all {
		if name := all[i].Name; name == rate || name == times+".p50" || name == times+".p99" {
			all[i].Role = bench.Primary
		}
	}
	return all
}
