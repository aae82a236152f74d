package analysis

import (
	"strings"

	"github.com/tare-bench/tare/internal/bench"
)

// ways finds requests that reached the kernel in different ways. Cells are by note.
func (w *warner) ways(noted map[mark][]int) {
	var said []string
	var cells []int
	for _, code := range []string{bench.NoteIOUring, bench.NoteIOLibaio, bench.NoteIOThreads} {
		if in := noted[mark{code: code}]; len(in) > 0 {
			said = append(said, wayName(code)+" by "+w.names(w.withoutControls(in)))
			cells = append(cells, in...)
		}
	}
	if len(said) > 1 {
		w.add(CodeWays, "not all cells handed their requests to the kernel in the same way ("+strings.Join(said, "; ")+"): that and the engines are confounded",
			"choose one that is allowed everywhere: --param io=libaio", "", cells...)
	}
}

// wayName is what people call the way that a note is about.
func wayName(code string) string {
	if code == bench.NoteIOUring {
		return "io_uring"
	}
	return strings.TrimPrefix(code, "io-")
}
