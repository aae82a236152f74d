package http

import (
	"encoding/json"
	"fmt"
	"maps"

	"github.com/tare-bench/tare/internal/load"
	"github.com/tare-bench/tare/internal/load/http"
	"github.com/tare-bench/tare/internal/supervise"
)

// oha has a closed and an open loop, and reports as JSON. In the open loop, with
// --latency-correction, it times requests from when they are due.
func oha() *tool {
	return &tool{
		Program: supervise.Program{Name: "oha", Package: "oha (cargo install oha)"},
		unknown: []string{"ramp", "objective", "percentile", "warmup", "repeat"},
		argv:    askOha,
		parse:   func(output []byte, _ toolRequest) (*load.Report, error) { return parseOha(output) },
	}
}

func askOha(q toolRequest) []string {
	args := []string{
		"--no-tui", "--output-format", "json", "-c", q.params["connections"], "-t", q.params["timeout"], "--redirect", "0",
	}
	if n := q.params["requests"]; n != "0" {
		args = append(args, "-n", n)
	} else {
		args = append(args, "-z", q.params["time"])
	}
	if q.isOpen() {
		args = append(args, "-q", q.params["rate"], "--latency-correction")
	}
	if !q.keepAlive() {
		args = append(args, "--disable-keepalive")
	}
	if q.params["tls"] == "yes" {
		args = append(args, "--insecure")
	}
	if q.params["http2"] == "yes" {
		args = append(args, "--http2")
	}
	return append(args, q.url())
}

// ohaDeadline is oha's error for requests that were in flight when its time was over:
// they do not count as failures.
const ohaDeadline = "aborted due to deadline"

// ohaOutput is the part of oha's JSON that is used, of version 1.9 and later: see its
// schema.json. A null was not measured.
type ohaOutput struct {
	Summary *struct {
		Total   *float64 `json:"total"`
		Slowest *float64 `json:"slowest"`
		Fastest *float64 `json:"fastest"`
		Average *float64 `json:"average"`
		Size    *float64 `json:"sizePerRequest"`
		Data    *float64 `json:"totalData"`
	} `json:"summary"`
	Percentiles map[string]*float64 `json:"latencyPercentiles"`
	Details     struct {
		Dial struct {
			Average *float64 `json:"average"`
			Fastest *float64 `json:"fastest"`
			Slowest *float64 `json:"slowest"`
		} `json:"DNSDialup"`
	} `json:"details"`
	Statuses map[string]int64 `json:"statusCodeDistribution"`
	Errors   map[string]int64 `json:"errorDistribution"`
}

// parseOha reads the output of oha with --output-format json.
func parseOha(output []byte) (*load.Report, error) {
	var o ohaOutput
	if err := json.Unmarshal(output, &o); err != nil {
		return nil, oha().UnknownOutput("JSON: "+err.Error(), output)
	}
	s := o.Summary
	if s == nil || s.Total == nil || s.Data == nil || o.Statuses == nil || o.Percentiles == nil || *s.Total <= 0 {
		return nil, oha().UnknownOutput("summary, latencyPercentiles and statusCodeDistribution", output)
	}
	good, bad, lost, err := o.count()
	if err != nil {
		return nil, err
	}
	r := load.NewReport("oha")
	maps.Copy(r.Values, map[string]float64{
		Rate: good / *s.Total, "http.transfer": *s.Data / *s.Total, Elapsed: *s.Total, Bytes: *s.Data,
		Requests: good + bad + lost, Failed: bad + lost, Failed + ".status": bad,
	})
	for name, v := range map[string]*float64{
		Time + ".mean": s.Average, Time + ".min": s.Fastest, Time + ".max": s.Slowest, Document: s.Size,
		"http.connect.mean": o.Details.Dial.Average, "http.connect.min": o.Details.Dial.Fastest,
		"http.connect.max": o.Details.Dial.Slowest,
	} {
		if v != nil {
			r.Values[name] = *v
		}
	}
	for _, p := range http.Percentiles() {
		if v := o.Percentiles[fmt.Sprintf("p%v", p)]; v != nil && good*(100-p)/100 >= http.MinTail {
			r.Values[http.PercentileName(Time, p)] = *v
		}
	}
	return r, nil
}

// count sums good and bad answers, and requests without an answer.
func (o *ohaOutput) count() (good, bad, lost float64, err error) {
	for status, n := range o.Statuses {
		if n < 0 || len(status) != 3 {
			return 0, 0, 0, fmt.Errorf("oha: status %.20q: %d answers", status, n)
		}
		if status[0] == '2' {
			good += float64(n)
		} else {
			bad += float64(n)
		}
	}
	for what, n := range o.Errors {
		if n < 0 {
			return 0, 0, 0, fmt.Errorf("oha: error %.80q: %d times", what, n)
		}
		if what != ohaDeadline {
			lost += float64(n)
		}
	}
	return good, bad, lost, nil
}
