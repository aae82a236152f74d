package iperf3_test

import (
	"testing"

	"github.com/tare-bench/tare/internal/foreign/foreigntest"
	"github.com/tare-bench/tare/internal/foreign/iperf3"
)

func TestRead(t *testing.T) { foreigntest.Golden(t, iperf3.Source(), "testdata/*.json") }

// output is one of a client, with this as its end.
func output(end string) string {
	return `{"start": {"version": "iperf 3.12"}, "end": {` + end + `}}`
}

const cpu = `, "cpu_utilization_percent": {"host_total": 1, "remote_total": 1}`

func FuzzRead(f *testing.F) {
	foreigntest.Fuzz(f, iperf3.Source(), "testdata/*.json",
		output(`"sum_sent": {}, "sum_received": {"bytes": 1e300, "seconds": 1e-300}`+cpu),
		output(`"sum_sent": {"retransmits": -1}, "sum_received": {"bytes": 1, "seconds": 1}`+cpu),
		`{"start": {"version": "iperf \u202e", "system_info": "Linux a b c"}, "error": "\u0000"}`)
}

func TestWrongFiles(t *testing.T) {
	foreigntest.Refused(t, iperf3.Source(), "-J", map[string]string{
		"":                        "f: there is no result of iperf3 in it",
		"[  5]   0.00-1.00 sec\n": "f: there is no result of iperf3 in it",
		`{"results": []}`:         "f: there is no result of iperf3 in it",
		"{\n\"start\": {":         "f:2: its JSON ends too early",
		output(""):                "f:1: it has no sum_sent, sum_received and cpu_utilization_percent: it may be of a version before 3.6",
		output(`"sum_sent": {}, "sum_received": {}` + cpu): "f:1: it has no possible throughput.rate: it may be of a version before 3.6",
		`{"start": {"version": "iperf 3.12", "accepted_connection": {"host": "::1"}}}`: "f:1: this is the output of a server, which " +
			"does not know what was sent",
	})
}
