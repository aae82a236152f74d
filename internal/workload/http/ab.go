package http

import (
	"maps"
	"regexp"
	"strconv"

	"github.com/tare-bench/tare/internal/load"
	"github.com/tare-bench/tare/internal/load/http"
	"github.com/tare-bench/tare/internal/supervise"
)

// ab is ApacheBench 2.3. It has one thread and a closed loop. Its tables are in whole
// milliseconds, so percentiles are read from the file that it also writes.
func ab() *tool {
	return &tool{
		Program: supervise.Program{Name: "ab", Package: "package apache2-utils"},
		unknown: []string{"rate", "ramp", "objective", "percentile", "warmup", "repeat", "http2"},
		argv:    askAB,
		parse:   parseAB,
	}
}

// abMaxRequests is the number of requests for which ab reserves memory if it is given a time.
const abMaxRequests = "20000000"

func askAB(q toolRequest) []string {
	args := []string{"-q", "-r", "-c", q.params["connections"], "-s", q.seconds("timeout"), "-e", "/dev/stdout"}
	if n := q.params["requests"]; n != "0" {
		args = append(args, "-n", n)
	} else {
		args = append(args, "-t", q.seconds("time"), "-n", abMaxRequests) // in this order: -t sets -n too
	}
	if q.keepAlive() {
		args = append(args, "-k")
	}
	return append(args, q.url())
}

// The lines of ab that are read.
var (
	abElapsed  = regexp.MustCompile(`(?m)^Time taken for tests: +([0-9.]{1,20}) seconds`)
	abComplete = regexp.MustCompile(`(?m)^Complete requests: +(\d{1,15})`)
	abFailed   = regexp.MustCompile(`(?m)^Failed requests: +(\d{1,15})`)
	abKinds    = regexp.MustCompile(
		`(?m)^ +\(Connect: (\d{1,15}), Receive: (\d{1,15}), Length: (\d{1,15}), Exceptions: (\d{1,15})\)`,
	)
	abStatus = regexp.MustCompile(`(?m)^Non-2xx responses: +(\d{1,15})`)
	abBytes  = regexp.MustCompile(`(?m)^Total transferred: +(\d{1,18}) bytes`)
	abLength = regexp.MustCompile(`(?m)^Document Length: +(\d{1,15}) bytes`)
	abMean   = regexp.MustCompile(`(?m)^Time per request: +([0-9.]{1,20}) \[ms\] \(mean\)`)
	abServed = regexp.MustCompile(`(?m)^(\d{1,3}),([0-9.]{1,20})\r?$`)
)

// parseAB reads the output of ab with -e /dev/stdout.
func parseAB(output []byte) (*load.Report, error) {
	in := &reader{text: output}
	r := load.NewReport("ab")
	elapsed := in.number(`line "Time taken for tests"`, abElapsed)
	complete := in.number(`line "Complete requests"`, abComplete)
	failed := in.number(`line "Failed requests"`, abFailed)
	bytes := in.number(`line "Total transferred"`, abBytes)
	length := in.number(`line "Document Length"`, abLength)
	mean := in.number(`line "Time per request"`, abMean)
	status, _ := in.maybe(abStatus)
	kinds := abFailures(output)
	// An answer with a bad status mostly also has another length: ab counts it as both.
	failed += max(kinds.length, status) - kinds.length
	if in.missing == "" && elapsed <= 0 {
		in.missing = "time above zero"
	}
	if in.missing != "" {
		return nil, ab().UnknownOutput(in.missing, output)
	}
	// ab counts failed requests as complete too.
	maps.Copy(r.Values, map[string]float64{
		Rate: max(0, complete-failed) / elapsed, "http.transfer": bytes / elapsed, Elapsed: elapsed,
		Requests: complete, Failed: failed, Failed + ".status": status,
		Failed + ".connect": kinds.connect, Failed + ".read": kinds.read, Failed + ".length": max(0, kinds.length-status),
		Bytes: bytes, Document: length, Time + ".mean": mean / 1000,
	})
	if !abTimes(r, output, complete) {
		return nil, ab().UnknownOutput("table of percentages", output)
	}
	return r, nil
}

// abKind is the number of failed requests of each kind.
type abKind struct{ connect, read, length float64 }

// abFailures reads why requests failed, if any did. ab calls an error of the connection
// an exception.
func abFailures(output []byte) abKind {
	found := abKinds.FindSubmatch(output)
	if found == nil {
		return abKind{}
	}
	var n [5]float64
	for i := 1; i < len(n); i++ {
		n[i], _ = strconv.ParseFloat(string(found[i]), 64) // digits
	}
	return abKind{connect: n[1], read: n[2] + n[4], length: n[3]}
}

// abTimes reads the file of percentages: for each from 0 to 99, the time in milliseconds
// within which that share of the requests was served.
func abTimes(r *load.Report, output []byte, complete float64) bool {
	seen := 0
	for _, line := range abServed.FindAllSubmatch(output, -1) {
		percent, err1 := strconv.ParseFloat(string(line[1]), 64)
		ms, err2 := strconv.ParseFloat(string(line[2]), 64)
		if err1 != nil || err2 != nil {
			return false
		}
		seen++
		switch {
		case percent == 0:
			r.Values[Time+".min"] = ms / 1000
		case (percent == 50 || percent == 90 || percent == 99) && complete*(100-percent)/100 >= http.MinTail:
			r.Values[http.PercentileName(Time, percent)] = ms / 1000
		}
	}
	return seen > 0
}
