package net

import (
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/load/network"
	"github.com/tare-bench/tare/internal/supervise"
)

// Notes implements bench.Noter.
func (rtt) Notes() []bench.Note { return []bench.Note{supervise.SameCPU()} }

// Notes implements bench.Noter.
func (throughput) Notes() []bench.Note {
	return []bench.Note{
		supervise.SameCPU(),
		{
			Code: network.NoteClientBound, Metric: "throughput.rate",
			Doubt: "the client was the bottleneck of network throughput",
			Text:  "the client was the bottleneck of {cells}: it used all of its CPU time, but the server did not",
			Advice: "the container can do more than the numbers show; with more CPUs, more streams may help: " +
				"--param streams=N",
		},
		{
			Code:   network.NoteNoKnee,
			Text:   "datagrams of {cells} were lost at every rate that was tried, so no rate without loss is known",
			Advice: "use longer trials, such as --param time=5s, or fewer streams",
		},
	}
}
