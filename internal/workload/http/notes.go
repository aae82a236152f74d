package http

import (
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/load/http"
	"github.com/tare-bench/tare/internal/supervise"
)

// NoteLoadBound marks a sample in which the client had no CPU time left, and the server
// had: the server could have done more.
const NoteLoadBound = "load-bound"

// Notes implements bench.Noter.
func (workload) Notes() []bench.Note {
	return []bench.Note{
		supervise.SameCPU(),
		{
			Code: NoteLoadBound,
			Text: "the client was the bottleneck in {cells}: it used all of its CPU time, and the server did not",
			Advice: "the server can do more than is shown: give the client more CPUs, or compare at a rate that " +
				"it can keep (option rate)",
		},
		{
			Code: http.NoteClosedLoop, Throughout: true,
			Text: "the client of {cells} waited for each answer before it sent the next request (closed loop): " +
				"while a server stalls nothing is sent, so that a stall is in few of the times",
			Advice: "to see what those would wait who came meanwhile, send at a rate (option rate)",
		},
		{
			Code: http.NoteRateMissed,
			Text: "in {cells} more than 1 % of the requests that were due had no good answer before the end " +
				"of the time",
			Advice: "the server, or the client, cannot keep this rate: the times say how long a queue became, " +
				"and not how quick the server is",
		},
		{
			Code:   http.NoteFailed,
			Text:   "requests of {cells} failed: they are counted, and are in no time and no rate",
			Advice: "see http.failed and the kinds below it",
		},
	}
}
