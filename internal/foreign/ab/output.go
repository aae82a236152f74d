package ab

import (
	"math"
	"regexp"
	"strconv"
)

// A Result is what ab 2.3 printed of one run. Times are in seconds.
type Result struct {
	Path        string
	Server      string  // software, as the server called itself
	Host        string  // with the port
	TLS         string  // protocol and cipher; empty = none
	KeepAlive   bool    // connections were used again
	Concurrency float64 // requests at a time
	Elapsed     float64
	Complete    float64 // requests that ended, also those that failed
	Failed      float64 // of them
	// Status, Connect, Read and Length are how many failed for which reason.
	Status, Connect, Read, Length float64
	Bytes                         float64 // headers and bodies, of all answers
	Document                      float64 // bytes of the first answer's body
	Mean                          float64 // time of a request

	// Times are within how many seconds which percentage of the requests was served. From the table that ab
	// prints, they are in whole milliseconds; from the file of -e, in thousandths of them.
	Times map[int]float64
	Exact bool // Times are from the file of -e
}

// Good is the number of requests that got a good answer.
func (r *Result) Good() float64 { return max(0, r.Complete-r.Failed) }

// The lines of ab that are read.
var (
	elapsed  = regexp.MustCompile(`(?m)^Time taken for tests: +([0-9.]{1,20}) seconds`)
	complete = regexp.MustCompile(`(?m)^Complete requests: +(\d{1,15})`)
	failed   = regexp.MustCompile(`(?m)^Failed requests: +(\d{1,15})`)
	kinds    = regexp.MustCompile(
		`(?m)^ +\(Connect: (\d{1,15}), Receive: (\d{1,15}), Length: (\d{1,15}), Exceptions: (\d{1,15})\)`,
	)
	status      = regexp.MustCompile(`(?m)^Non-2xx responses: +(\d{1,15})`)
	transferred = regexp.MustCompile(`(?m)^Total transferred: +(\d{1,18}) bytes`)
	length      = regexp.MustCompile(`(?m)^Document Length: +(\d{1,15}) bytes`)
	mean        = regexp.MustCompile(`(?m)^Time per request: +([0-9.]{1,20}) \[ms\] \(mean\)`)
	concurrency = regexp.MustCompile(`(?m)^Concurrency Level: +(\d{1,15})`)
	keepAlive   = regexp.MustCompile(`(?m)^Keep-Alive requests: +(\d{1,15})`)
	path        = regexp.MustCompile(`(?m)^Document Path: +(\S.*?)\r?$`)
	software    = regexp.MustCompile(`(?m)^Server Software: +(\S.*?)\r?$`)
	hostname    = regexp.MustCompile(`(?m)^Server Hostname: +(\S.*?)\r?$`)
	port        = regexp.MustCompile(`(?m)^Server Port: +(\d{1,5})`)
	protocol    = regexp.MustCompile(`(?m)^SSL/TLS Protocol: +(\S.*?)\r?$`)
	exact       = regexp.MustCompile(`(?m)^(\d{1,3}),([0-9.]{1,20})\r?$`)
	rounded     = regexp.MustCompile(`(?m)^ +(\d{1,3})% +(\d{1,12})(?: \(longest request\))?\r?$`)
)

// Parse reads what ab printed, with or without the file of -e in it. If it cannot be read, lacks says what it has
// not.
func Parse(text []byte) (r *Result, lacks string) {
	in := &reader{text: text}
	r = &Result{
		Path: in.word(path), Server: in.word(software), Host: in.word(hostname), TLS: in.word(protocol),
		Elapsed: in.number(`line "Time taken for tests"`, elapsed), Complete: in.number(`line "Complete requests"`, complete),
		Failed: in.number(`line "Failed requests"`, failed), Bytes: in.number(`line "Total transferred"`, transferred),
		Document: in.number(`line "Document Length"`, length), Mean: in.number(`line "Time per request"`, mean) / 1000,
	}
	if p := in.word(port); p != "" {
		r.Host += ":" + p
	}
	r.Concurrency, _ = in.maybe(concurrency)
	again, _ := in.maybe(keepAlive)
	r.KeepAlive = again > 0
	r.failures(in)
	switch {
	case in.lacks == "" && r.Elapsed <= 0:
		in.lacks = "time above zero"
	case in.lacks == "" && !r.times(text):
		in.lacks = "table of percentages"
	}
	return r, in.lacks
}

// failures reads why requests failed, if any did. ab calls an error of the connection an exception. An answer with
// a bad status mostly also has another length: ab counts it as both.
func (r *Result) failures(in *reader) {
	all := 0.0
	if found := kinds.FindSubmatch(in.text); found != nil {
		var n [5]float64
		for i := 1; i < len(n); i++ {
			n[i], _ = strconv.ParseFloat(string(found[i]), 64) // digits
		}
		r.Connect, r.Read, all = n[1], n[2]+n[4], n[3]
	}
	r.Status, _ = in.maybe(status)
	r.Failed += max(all, r.Status) - all
	r.Length = max(0, all-r.Status)
}

// mostLines is how many lines with percentages are read; ab prints 101 of them.
const mostLines = 1000

// times reads the file of percentages if it is there, otherwise the table. It reports whether all is a number.
func (r *Result) times(text []byte) bool {
	lines := exact.FindAllSubmatch(text, mostLines)
	if r.Exact = len(lines) > 0; !r.Exact {
		lines = rounded.FindAllSubmatch(text, mostLines)
	}
	r.Times = map[int]float64{}
	for _, line := range lines {
		percent, err1 := strconv.Atoi(string(line[1]))
		ms, err2 := strconv.ParseFloat(string(line[2]), 64)
		if err1 != nil || err2 != nil || math.IsInf(ms, 0) {
			return false
		}
		if percent <= 100 {
			r.Times[percent] = ms / 1000
		}
	}
	return len(r.Times) > 0
}

// A reader takes numbers out of a text for people, and keeps the first one that is missing.
type reader struct {
	text  []byte
	lacks string
}

func (r *reader) word(form *regexp.Regexp) string {
	if found := form.FindSubmatch(r.text); found != nil {
		return string(found[1])
	}
	return ""
}

func (r *reader) number(what string, form *regexp.Regexp) float64 {
	v, ok := r.maybe(form)
	if !ok && r.lacks == "" {
		r.lacks = what
	}
	return v
}

func (r *reader) maybe(form *regexp.Regexp) (float64, bool) {
	v, err := strconv.ParseFloat(r.word(form), 64)
	return v, err == nil
}
