package http

import (
	"strconv"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/load/http"
	"github.com/tare-bench/tare/internal/supervise"
)

// The metrics that other packages use by name.
const (
	Rate     = "http.rate"
	Requests = "http.requests"
	Elapsed  = "http.elapsed"
	Failed   = "http.failed"
	Document = "http.document"
	Bytes    = "http.bytes"
	Time     = "http.time"
	Offered  = "http.offered"
)

// The metrics that this package measures.
const (
	serverCPU  = "http.server_cpu"
	cpuEach    = "http.cpu_per_request"
	memoryRest = "http.memory_rest"
	memoryLoad = "http.memory_load"
)

func (workload) Metrics() []bench.Metric {
	m := func(name, title, unit string, better bench.Direction, scale bench.Scale, doc string) bench.Metric {
		return bench.Metric{Name: name, Title: title, Unit: unit, Better: better, Role: bench.Detail, Scale: scale, Doc: doc}
	}
	const s, n, b = "s", "1", "B"
	all := []bench.Metric{
		m(Rate, "requests per second", "1/s", bench.Higher, bench.Ratio,
			"Good answers that were complete before the end of the measured time, per second; with repeat the "+
				"median of the rounds; of a ramp, at the highest rate that held."),
		m("http.transfer", "transfer rate", "B/s", bench.Higher, bench.Ratio,
			"Bytes of these answers, headers and bodies, per second, also the median of the rounds; with tls or "+
				"http2 the bodies alone."),
		m("http.highest", "highest rate that holds", "1/s", bench.Higher, bench.Ratio,
			"With ramp: highest rate at which response times meet the objective and at most 1 % of the requests "+
				"(0.1 % for the 99.9th percentile) have no good answer in time."),
		m(cpuEach, "CPU time per request", s, bench.Lower, bench.Ratio,
			"User and system time of the processes inside, from before the first to after the last request of "+
				"this load with its warm-up, divided by the number of requests."),
		m(memoryRest, "memory of the server at rest", b, bench.Lower, bench.Ratio,
			"Resident memory of the processes inside after the server has answered its first request and before the "+
				"first load. Pages that they share count once, and those of files as if nobody else used them."),
		m(memoryLoad, "memory of the server under load", b, bench.Lower, bench.Ratio,
			"Largest resident memory of the processes inside while requests were sent, counted as at rest: read every "+
				"half second, unless cells take turns, and after the last answer. It includes what an earlier load of the same "+
				"server has left."),
		m(serverCPU, "CPU of the server", n, bench.Lower, bench.Difference,
			"User and system time of the processes inside per second of the client's run: 1 is one CPU."),
		m("http.client_cpu", "CPU of the client", n, bench.Lower, bench.Difference,
			"User and system time of the client per second, divided by the number of its CPUs, without the time "+
				"in which it only polled for answers: 1 is all that it could have."),
		m(Offered, "requests due per second", "1/s", bench.Neither, bench.Ratio,
			"In the open loop: the requested rate."),
		m(Requests, "requests", n, bench.Neither, bench.Difference, "Requests that count, good and failed ones."),
		m(Bytes, "bytes", b, bench.Neither, bench.Difference,
			"Bytes of the good answers that were complete before the end of the time, headers and bodies; with "+
				"tls or http2 the bodies alone."),
		m(Document, "response size", b, bench.Neither, bench.Difference, "Bytes in the body of an answer."),
		m(Elapsed, "duration", s, bench.Neither, bench.Ratio,
			"From when requests count to the end of the time, or to the last answer if a number of requests was "+
				"given; with repeat the sum over the rounds."),
		m(Failed, "failed requests", n, bench.Lower, bench.Difference,
			"Requests that count and got no good answer. No time and no rate includes them."),
	}
	for _, f := range []struct{ kind, what string }{
		{"connect", "because no connection could be made"},
		{"read", "because the connection broke, or the answer was invalid"},
		{"length", "because the answer's length was not that of the others, or not the announced one"},
		{"status", "because the status was not 200 to 299"},
		{"timeout", "because the answer was not complete in time"},
	} {
		all = append(all,
			m(Failed+"."+f.kind, "failed: "+f.kind, n, bench.Lower, bench.Difference, "Failed requests "+f.what+"."))
	}
	all = append(all, times(Time, "time",
		"from the beginning of the request (with its connection, if it needed a new one), in the open loop from "+
			"when it was due, to the last byte of its answer")...)
	all = append(all, times("http.first_byte", "first byte",
		"from sending the request, in the open loop from when it was due, to the first byte of its answer")...)
	all = append(all, times("http.connect", "connect",
		"from the beginning of a connection until it was established; of all connections, also of the warm-up")...)
	for i := range all {
		switch all[i].Name {
		case Rate, http.PercentileName(Time, 50), http.PercentileName(Time, 99):
			all[i].Role = bench.Primary
		}
	}
	return append(bench.WithStretches(primaryFirst(all), http.Stretches()...), supervise.Counters()...)
}

// times returns the metrics of one kind of time.
func times(name, title, span string) []bench.Metric {
	m := func(which, words, doc string) bench.Metric {
		return bench.Metric{
			Name: name + which, Title: title + ", " + words, Unit: "s", Better: bench.Lower, Role: bench.Detail,
			Scale: bench.Ratio, Doc: doc + ": " + span + ".",
		}
	}
	spread := m(".sd", "sd", "Standard deviation of the times")
	spread.Scale = bench.Difference
	all := []bench.Metric{m(".min", "shortest", "Shortest time"), m(".mean", "mean", "Mean time"), spread}
	for _, p := range http.Percentiles() {
		text := strconv.FormatFloat(p, 'f', -1, 64)
		one := m("", "p"+text, text+"th percentile of the times")
		if p == 50 {
			one = m("", "median", "Median of the times")
		}
		one.Name = http.PercentileName(name, p)
		all = append(all, one)
	}
	return append(all, m(".max", "longest", "Longest time"))
}

func primaryFirst(all []bench.Metric) []bench.Metric {
	var first, rest []bench.Metric
	for _, m := range all {
		if m.Role == bench.Primary {
			first = append(first, m)
		} else {
			rest = append(rest, m)
		}
	}
	return append(first, rest...)
}
