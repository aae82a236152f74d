package http

import (
	"maps"

	theirs "github.com/tare-bench/tare/internal/foreign/ab"
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

// parseAB reads the output of ab with -e /dev/stdout.
func parseAB(output []byte) (*load.Report, error) {
	out, lacks := theirs.Parse(output)
	if lacks == "" && !out.Exact {
		lacks = "table of percentages"
	}
	if lacks != "" {
		return nil, ab().UnknownOutput(lacks, output)
	}
	r := load.NewReport("ab")
	maps.Copy(r.Values, map[string]float64{
		Rate: out.Good() / out.Elapsed, "http.transfer": out.Bytes / out.Elapsed, Elapsed: out.Elapsed,
		Requests: out.Complete, Failed: out.Failed, Failed + ".status": out.Status,
		Failed + ".connect": out.Connect, Failed + ".read": out.Read, Failed + ".length": out.Length,
		Bytes: out.Bytes, Document: out.Document, Time + ".mean": out.Mean,
	})
	if v, ok := out.Times[0]; ok {
		r.Values[Time+".min"] = v
	}
	for _, p := range []int{50, 90, 99} {
		if v, ok := out.Times[p]; ok && out.Complete*float64(100-p)/100 >= http.MinTail {
			r.Values[http.PercentileName(Time, float64(p))] = v
		}
	}
	return r, nil
}
