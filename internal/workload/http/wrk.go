package http

import (
	"maps"
	"math"
	"regexp"
	"strconv"

	"github.com/tare-bench/tare/internal/load"
	"github.com/tare-bench/tare/internal/load/http"
	"github.com/tare-bench/tare/internal/supervise"
)

// wrk has a closed loop, and counts the answers until its time is over.
func wrk() *tool {
	return &tool{
		Program: supervise.Program{Name: "wrk", Package: "package wrk"},
		unknown: []string{"requests", "rate", "ramp", "objective", "percentile", "warmup", "repeat", "http2"},
		argv:    askWrk,
		parse:   parseWrk,
	}
}

func askWrk(q toolRequest) []string {
	args := []string{
		"--latency", "-t", strconv.Itoa(q.threads), "-c", q.params["connections"],
		"-d", q.seconds("time") + "s", "--timeout", q.seconds("timeout") + "s",
	}
	if n, err := strconv.Atoi(q.params["connections"]); err == nil && n < q.threads {
		args[2] = strconv.Itoa(n) // each thread needs one
	}
	if !q.keepAlive() {
		args = append(args, "-H", "Connection: close")
	}
	return append(args, q.url())
}

// The lines of wrk that are read, of versions 4.0 to 4.2.
var (
	wrkLatency = regexp.MustCompile(
		`(?m)^ +Latency +([0-9.]{1,20})(us|ms|s|m|h) +([0-9.]{1,20})(us|ms|s|m|h) +([0-9.]{1,20})(us|ms|s|m|h) `,
	)
	wrkServed = regexp.MustCompile(`(?m)^ +([0-9.]{1,10})% +([0-9.]{1,20})(us|ms|s|m|h)\r?$`)
	wrkTotal  = regexp.MustCompile(
		`(?m)^ +(\d{1,15}) requests in ([0-9.]{1,20})(us|ms|s|m|h), ([0-9.]{1,20})([KMGTP]?)B read`,
	)
	wrkErrors = regexp.MustCompile(
		`(?m)^ +Socket errors: connect (\d{1,15}), read (\d{1,15}), write (\d{1,15}), timeout (\d{1,15})`,
	)
	wrkStatus = regexp.MustCompile(`(?m)^ +Non-2xx or 3xx responses: (\d{1,15})`)
	wrkRate   = regexp.MustCompile(`(?m)^Requests/sec: +([0-9.]{1,20})`)
)

// parseWrk reads the output of wrk with --latency.
func parseWrk(output []byte) (*load.Report, error) {
	total, latency := wrkTotal.FindSubmatch(output), wrkLatency.FindSubmatch(output)
	in := &reader{text: output}
	rate := in.number(`line "Requests/sec"`, wrkRate)
	switch {
	case total == nil:
		return nil, wrk().UnknownOutput(`line "N requests in"`, output)
	case latency == nil:
		return nil, wrk().UnknownOutput(`line "Latency"`, output)
	case in.missing != "":
		return nil, wrk().UnknownOutput(in.missing, output)
	}
	r := load.NewReport("wrk")
	answers, elapsed, bytes := float(total[1]), span(total[2], total[3]), size(total[4], total[5])
	if elapsed <= 0 {
		return nil, wrk().UnknownOutput("time above zero", output)
	}
	status, _ := in.maybe(wrkStatus)
	lost := wrkFailures(r, output)
	// wrk's rate includes answers with a bad status.
	maps.Copy(r.Values, map[string]float64{
		Rate: max(0, rate-status/elapsed), "http.transfer": bytes / elapsed, Elapsed: elapsed, Bytes: bytes,
		Requests: answers + lost, Failed: lost + status, Failed + ".status": status,
		Time + ".mean": span(latency[1], latency[2]), Time + ".sd": span(latency[3], latency[4]),
		Time + ".max": span(latency[5], latency[6]),
	})
	for _, line := range wrkServed.FindAllSubmatch(output, -1) {
		if p := float(line[1]); (p == 50 || p == 90 || p == 99) && answers*(100-p)/100 >= http.MinTail {
			r.Values[http.PercentileName(Time, p)] = span(line[2], line[3])
		}
	}
	return r, nil
}

// wrkFailures reads the socket errors, if there were any.
func wrkFailures(r *load.Report, output []byte) (sum float64) {
	found := wrkErrors.FindSubmatch(output)
	if found == nil {
		return 0
	}
	connect, read, write, late := float(found[1]), float(found[2]), float(found[3]), float(found[4])
	r.Values[Failed+".connect"], r.Values[Failed+".read"], r.Values[Failed+".timeout"] = connect, read+write, late
	return connect + read + write + late
}

// float parses digits and dots; more than one dot gives NaN, which makes the report fail.
func float(text []byte) float64 {
	v, err := strconv.ParseFloat(string(text), 64)
	if err != nil {
		return math.NaN()
	}
	return v
}

// span converts a time to seconds.
func span(text, unit []byte) float64 {
	return float(text) * map[string]float64{"us": 1e-6, "ms": 1e-3, "s": 1, "m": 60, "h": 3600}[string(unit)]
}

// size converts a size to bytes; wrk uses powers of 1024.
func size(text, unit []byte) float64 {
	return float(text) * map[string]float64{
		"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40, "P": 1 << 50,
	}[string(unit)]
}
