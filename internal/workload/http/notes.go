package http

import (
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/load/http"
	"github.com/tare-bench/tare/internal/supervise"
)

// NoteLoadBound marks a sample in which the client used all of its CPU time, but the
// server did not: the server could have done more.
const NoteLoadBound = "load-bound"

// Notes implements bench.Noter.
func (workload) Notes() []bench.Note {
	return []bench.Note{
		supervise.SameCPU(),
		{
			Code: NoteLoadBound, Doubt: "the client was the bottleneck, not the server",
			Text: "the client was the bottleneck of {cells}: it used all of its CPU time, but the server did not",
			Advice: "the server can do more than the numbers show: give the client more CPUs, or compare at a rate " +
				"that it can send (option rate)",
		},
		{
			Code: http.NoteClosedLoop, AllParts: true,
			Text: "the client of {cells} waited for each answer before the next request (closed loop): " +
				"while the server stalls, the client sends nothing, so few times include the stall",
			Advice: "to include queueing delay, use an open loop: --param rate=N",
		},
		{
			Code: http.NoteRateMissed,
			Text: "more than 1 % of the requests due in {cells} had no good answer before the end of the time",
			Advice: "the server or the client cannot keep this rate, so the times show the length of the queue, " +
				"not the speed of the server: lower the rate",
		},
		{
			Code:   http.NoteFailed,
			Text:   "requests of {cells} failed: they are counted, but no time and no rate includes them",
			Advice: "see http.failed and its kinds",
		},
	}
}
