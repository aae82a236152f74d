package http

import (
	"strconv"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/load/http"
	"github.com/tare-bench/tare/internal/supervise"
)

// The metrics that others ask for by name.
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
		m(Rate, "requests per second", "1/s", bench.Higher, bench.Ratio, "Good answers that were whole before the end of the time that is measured, by how long it was; of requests that are repeated the median of the times; of a ramp, at the highest rate that held."),
		m("http.transfer", "transfer rate", "B/s", bench.Higher, bench.Ratio, "Bytes of these answers, heads and bodies, by the same time, and the median likewise; with tls or http2 of the bodies alone."),
		m("http.highest", "highest rate that holds", "1/s", bench.Higher, bench.Ratio, "Of a ramp: highest rate at which the times keep to the objective and at most 1 % of the requests (0.1 % for the 99.9th percentile) have no good answer in time."),
		m(cpuEach, "CPU time per request", s, bench.Lower, bench.Ratio, "User and system time of the processes inside from before the first to after the last request of this load, those to warm up included, by the number of requests."),
		m(memoryRest, "memory of the server at rest", b, bench.Lower, bench.Ratio, "Proportional set size of the processes inside once the server has answered its first request, and before the first load."),
		m(memoryLoad, "memory of the server under load", b, bench.Lower, bench.Ratio, "Proportional set size of the processes inside, the largest seen while requests were sent: every half second, and when the last was answered. What an earlier load of the same server has left is in it."),
		m(serverCPU, "CPU of the server", n, bench.Lower, bench.Difference, "User and system time of the processes inside per second that the client ran: 1 is one CPU."),
		m("http.client_cpu", "CPU of the client", n, bench.Lower, bench.Difference, "User and system time of the client per second, by the number of its CPUs, without that in which it only looked for answers: 1 is all that it could have."),
		m(Offered, "requests due per second", "1/s", bench.Neither, bench.Ratio, "In the open loop: the rate that was asked for."),
		m(Requests, "requests", n, bench.Neither, bench.Difference, "Requests that count, good and failed ones."),
		m(Bytes, "bytes", b, bench.Neither, bench.Difference, "Bytes of the good answers that were whole before the end of the time, heads and bodies; with tls or http2 of the bodies alone."),
		m(Document, "bytes of a document", b, bench.Neither, bench.Difference, "Bytes in the body of an answer."),
		m(Elapsed, "time taken", s, bench.Neither, bench.Ratio, "From when requests count to the end of the time, or to the last answer where a number of requests was asked for; times that are repeated added up."),
		m(Failed, "failed requests", n, bench.Lower, bench.Difference, "Requests that count and got no good answer. They have no time, and are in no rate."),
	}
	for _, f := range []struct{ kind, what string }{
		{"connect", "because no connection came about"},
		{"read", "because the connection was cut off, or what came was no answer"},
		{"length", "because the answer was not as long as the others, or as it said"},
		{"status", "whose answer had another status than 200 to 299"},
		{"timeout", "because the answer was not whole in time"},
	} {
		all = append(all, m(Failed+"."+f.kind, "failed: "+f.kind, n, bench.Lower, bench.Difference, "Failed requests "+f.what+"."))
	}
	all = append(all, times(Time, "time", "from when the request began (connection included, where it had to be made), in the open loop from when it was due, to the last byte of its answer")...)
	all = append(all, times("http.first_byte", "first byte", "from when the request was sent, in the open loop from when it was due, to the first byte of its answer")...)
	all = append(all, times("http.connect", "connect", "from when a connection began to when it was established; of all connections, those of the warm-up too")...)
	for i := range all {
		switch all[i].Name {
		case Rate, http.PercentileName(Time, 50), http.PercentileName(Time, 99):
			all[i].Role = bench.Primary
		}
	}
	return append(primaryFirst(all), supervise.Counters()...)
}

// times are the metrics of one kind of times.
func times(name, title, span string) []bench.Metric {
	m := func(which, words, doc string) bench.Metric {
		return bench.Metric{Name: name + which, Title: title + ", " + words, Unit: "s", Better: bench.Lower, Role: bench.Detail, Scale: bench.Ratio, Doc: doc + ": " + span + "."}
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
