package supervise

import "github.com/tare-bench/tare/internal/bench"

// NoteSameCPU marks a sample in which client and server had to share a CPU.
const NoteSameCPU = "same-cpu"

// SameCPU returns the note NoteSameCPU, for workloads with a client and a server.
func SameCPU() bench.Note {
	return bench.Note{
		Code: NoteSameCPU,
		Text: "client and server of {cells} had to share a CPU",
		Advice: "the times include the other side's work: give tare and its containers at least two CPUs, and use " +
			"an engine that can pin containers to CPUs (cpuset)",
	}
}
