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
			Text: "the client was the bottleneck in {cells}: it used all of its CPU time, and the server did not",
			Advice: "the container can do more than is shown: the numbers are those of the client, and more " +
				"streams may help where there are more CPUs",
		},
		{
			Code: network.NoteNoKnee,
			Text: "at every rate that was tried, some datagrams of {cells} were lost: no rate is known to be " +
				"without loss",
			Advice: "give each trial more time, or send fewer at once: --param time=5s",
		},
	}
}
