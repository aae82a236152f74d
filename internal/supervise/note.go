package supervise

import "github.com/tare-bench/tare/internal/bench"

// NoteSameCPU marks a sample in which client and server had to share a CPU.
const NoteSameCPU = "same-cpu"

// SameCPU is its note, for workloads that have client and server.
func SameCPU() bench.Note {
	return bench.Note{
		Code: NoteSameCPU,
		Text: "client and server of {cells} had to share a CPU",
		Advice: "their work is in one another's times: give tare and its containers two CPUs at least, and take " +
			"an engine that keeps containers to some (cpuset)",
	}
}
