package net

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"strconv"

	theirs "github.com/tare-bench/tare/internal/foreign/iperf3"
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

// parseIperf reads the output of the client with -J.
func parseIperf(output []byte, datagrams bool) (*load.Report, error) {
	var o theirs.Output
	if err := json.Unmarshal(output, &o); err != nil {
		return nil, iperf3().UnknownOutput("JSON: "+err.Error(), output)
	}
	if o.Error != "" {
		return nil, fmt.Errorf("iperf3: %.200q", o.Error)
	}
	values, lacks := o.End.Values(datagrams)
	if lacks != "" {
		return nil, iperf3().UnknownOutput(lacks, output)
	}
	r := load.NewReport("iperf3")
	maps.Copy(r.Values, values)
	return r, nil
}
