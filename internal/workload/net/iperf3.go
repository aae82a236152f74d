package net

import (
	"encoding/json"
	"fmt"
	"math"
	"net/netip"
	"strconv"

	"github.com/tare-bench/tare/internal/load"
	"github.com/tare-bench/tare/internal/supervise"
)

// iperf3 measures throughput, and reports as JSON.
func iperf3() *tool {
	return &tool{
		Program: supervise.Program{Name: "iperf3", Package: "package iperf3"},
		unknown: []string{"warmup", "batch", "knee"},
		serverArgv: func(o toolOptions) []string {
			return []string{"-s", "-p", fmt.Sprint(o.port), "--forceflush"}
		},
		readyLine: "Server listening", lines: 2,
		clientArgv: iperfClient,
		parse: func(output []byte, o toolOptions) (*load.Report, error) {
			return parseIperf(output, o.has("protocol", "udp"))
		},
	}
}

func iperfClient(o toolOptions, server netip.AddrPort) []string {
	args := []string{
		"-J", "-c", server.Addr().String(), "-p", fmt.Sprint(server.Port()),
		"-t", seconds(o.params["time"]), "-P", o.params["streams"],
	}
	if o.has("direction", "down") {
		args = append(args, "-R")
	} else if o.has("direction", "both") {
		args = append(args, "--bidir")
	}
	size := o.params["size"]
	if o.has("protocol", "udp") {
		rate, _ := strconv.ParseInt(o.params["rate"], 10, 64) // was validated
		args = append(args, "-u", "-b", strconv.FormatInt(rate*8, 10))
		if size == "" {
			size = "1440"
		}
	}
	if size != "" {
		args = append(args, "-l", size)
	}
	if o.client != "" {
		args = append(args, "-A", o.client+","+o.server)
	}
	return args
}

// The part of iperf3's JSON that is used, of version 3.6 and later.
type (
	iperfOutput struct {
		Error string `json:"error"`
		End   struct {
			Sent         *iperfSum `json:"sum_sent"`
			Received     *iperfSum `json:"sum_received"`
			SentBack     *iperfSum `json:"sum_sent_bidir_reverse"`
			ReceivedBack *iperfSum `json:"sum_received_bidir_reverse"`
			CPU          struct {
				Client *float64 `json:"host_total"`
				Server *float64 `json:"remote_total"`
			} `json:"cpu_utilization_percent"`
		} `json:"end"`
	}
	iperfSum struct {
		Bytes   float64 `json:"bytes"`
		Seconds float64 `json:"seconds"`
		Jitter  float64 `json:"jitter_ms"`
		Lost    float64 `json:"lost_packets"`
		Packets float64 `json:"packets"`
	}
)

// parseIperf reads the output of the client with -J.
func parseIperf(output []byte, datagrams bool) (*load.Report, error) {
	var o iperfOutput
	if err := json.Unmarshal(output, &o); err != nil {
		return nil, iperf3().UnknownOutput("JSON: "+err.Error(), output)
	}
	if o.Error != "" {
		return nil, fmt.Errorf("iperf3: %.200q", o.Error)
	}
	e := &o.End
	if e.Sent == nil || e.Received == nil || e.CPU.Client == nil || e.CPU.Server == nil {
		return nil, iperf3().UnknownOutput("sum_sent, sum_received and cpu_utilization_percent", output)
	}
	sent, came := []*iperfSum{e.Sent}, []*iperfSum{e.Received}
	if e.SentBack != nil && e.ReceivedBack != nil {
		sent, came = append(sent, e.SentBack), append(came, e.ReceivedBack)
	}
	r := load.NewReport("iperf3")
	r.Values["throughput.rate"] = rateOf(came)
	r.Values["throughput.client_cpu"] = *e.CPU.Client / 100
	r.Values["throughput.server_cpu"] = *e.CPU.Server / 100
	if datagrams {
		r.Values["throughput.offered"] = rateOf(sent)
		r.Values["throughput.loss"], r.Values["throughput.jitter"] = iperfDatagrams(came)
	}
	for name, v := range r.Values {
		if math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
			return nil, iperf3().UnknownOutput("possible "+name, output)
		}
	}
	return r, nil
}

// rateOf sums bytes per second.
func rateOf(sums []*iperfSum) (rate float64) {
	for _, s := range sums {
		rate += s.Bytes / s.Seconds
	}
	return rate
}

// iperfDatagrams returns the share of lost datagrams, and the mean jitter in seconds.
func iperfDatagrams(came []*iperfSum) (loss, jitter float64) {
	var lost, all float64
	for _, s := range came {
		lost += max(0, s.Lost) // late datagrams can make it negative
		all += s.Packets
		jitter += s.Jitter / 1000 / float64(len(came))
	}
	return lost / all, jitter
}
