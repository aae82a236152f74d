package fio

import (
	"fmt"
	"strconv"
	"time"

	"github.com/tare-bench/tare/internal/load"
)

// An Output is the part that is read of what fio 3 prints as json or json+.
type Output struct {
	Version string            `json:"fio version"` // such as "fio-3.33"
	Printed int64             `json:"timestamp_ms"`
	Global  map[string]string `json:"global options"`
	Jobs    []Job             `json:"jobs"`
}

// A Job is what is told of one job, or of a group of jobs that are reported together.
type Job struct {
	Name    string            `json:"jobname"`
	Group   int               `json:"groupid"` // jobs of one group ran at the same time
	Error   int               `json:"error"`   // a number of the kernel; 0 = none
	Options map[string]string `json:"job options"`
	Read    Side              `json:"read"`
	Write   Side              `json:"write"`
	Trim    Side              `json:"trim"`
	Mixed   Side              `json:"mixed"` // in place of the three, with unified_rw_reporting
	Sync    struct {
		Latency Latency `json:"lat_ns"`
	} `json:"sync"`
}

// ran is how long the job made requests, in milliseconds.
func (j *Job) ran() int64 {
	return max(j.Read.Runtime, j.Write.Runtime, j.Trim.Runtime, j.Mixed.Runtime)
}

// A Side is one direction of a job.
type Side struct {
	IOPS       float64 `json:"iops"`     // requests per second
	Rate       float64 `json:"bw_bytes"` // bytes per second
	Requests   int64   `json:"total_ios"`
	Runtime    int64   `json:"runtime"` // milliseconds in which they were made
	Latency    Latency `json:"lat_ns"`  // from before the submission to the completion
	Completion Latency `json:"clat_ns"` // from the submission on
}

// A Latency is times in nanoseconds.
type Latency struct {
	Mean        float64            `json:"mean"`
	Max         float64            `json:"max"`
	N           int64              `json:"N"`
	Percentiles map[string]float64 `json:"percentile"` // by percentage, such as "99.000000"
	Bins        map[string]int64   `json:"bins"`       // of json+: how many there are, by time
}

// MaxCount is the largest number of requests that is believed.
const MaxCount = 1 << 40

// Histogram has the times of json+.
func (l *Latency) Histogram() (*load.Histogram, error) {
	h := load.NewHistogram()
	for text, n := range l.Bins {
		ns, err := strconv.ParseInt(text, 10, 64)
		if err != nil || ns < 0 || n < 0 || n > MaxCount {
			return nil, fmt.Errorf("%d latencies of %.40q ns", n, text)
		}
		h.AddMany(time.Duration(ns), n)
	}
	return h, nil
}

// Percentile is a percentile in seconds.
func (l *Latency) Percentile(p float64) (v float64, ok bool) {
	v, ok = l.Percentiles[strconv.FormatFloat(p, 'f', 6, 64)]
	return v / 1e9, ok
}
