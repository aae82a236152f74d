// Command tare-agent is the program that tare runs inside containers: one
// static binary, embedded in tare, that is the only file of tare's own image.
// See package agent for its tasks.
//
// It is built without cgo and with an entry point of its own:
//
//	CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags '-s -w -E tare_start' \
//		-o internal/image/agentbin/$GOARCH/tare-agent ./cmd/tare-agent
//
// tare_start (entry_$GOARCH.s) reads CLOCK_MONOTONIC before the Go runtime
// exists, so that the mark is the time of the program's first instruction.
// A binary linked without -E works, but refuses the task "mark": it has no
// first instruction to tell of.
package main

import (
	"os"
	"time"

	"github.com/tare-bench/tare/internal/agent"
)

// first is CLOCK_MONOTONIC in nanoseconds at the first instruction. It is
// written once, by tare_start, before the runtime starts; 0 if the binary was
// linked without it.
var first int64

func main() {
	os.Exit(agent.Main(time.Duration(first), os.Args[1:], os.Stdout, os.Stderr))
}
