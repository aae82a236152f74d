// Package agent runs inside containers: it has the small tasks that workloads and
// tests need there, and the formats of their answers. Command tare-agent is its main
// program; tare itself uses only the formats.
//
// A task prints its answer to standard output and exits with 0. Status 1 means a
// failure and 2 wrong usage; both come with one line on standard error.
//
// The package imports the standard library and the loads, and nothing whose
// initialisation can be measured: its start-up is part of what tare measures.
package agent

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// Path is the path of the agent in tare's own image.
const Path = "/tare-agent"

// The exit statuses of tasks that do not choose their own.
const (
	exitOK      = 0
	exitFailed  = 1
	exitUsage   = 2
	exitSIGTERM = 128 + 15
)

// A task is one thing that the agent can do. Its run gets the arguments after
// the task's name and returns the exit status.
type task struct {
	name  string
	usage string // the arguments
	run   func(args []string, stdout, stderr io.Writer) int
}

// tasks returns every task except mark, which Main handles itself.
func tasks() []task {
	return []task{
		{"exit", "CODE", exit},
		{"echo", "[-2] TEXT...", echo},
		{"env", "", env},
		{"facts", "", facts},
		{"cat", "PATH", cat},
		{"write", "PATH TEXT", write},
		{"print", "BYTES [both]", printBytes},
		{"spew", "", printForever},
		{"sleep", "DURATION", sleep},
		{"hold", "", hold},
		{"tick", "", tick},
		{"stubborn", "", ignoreTerm},
		{"spin", "DURATION [THREADS]", spin},
		{"alloc", "BYTES", alloc},
		{"fork", "COUNT", fork},
		{"serve", "PORT|PATH [DELAY]", serve},
		{"probe", "PORT", probe},
		{"load", "LOAD [KEY=VALUE...] [-- LOAD...]", runLoads},
		{"init", "", initialize},
		{"launch", "[KEY=VALUE...] -- PROGRAM [ARG...]", launch},
		{"word", "", sendWord},
	}
}

// Main runs the task that args name and returns the exit status. First is the time of
// the process's first instruction, CLOCK_MONOTONIC; 0 means unknown, and then there is
// no mark.
func Main(first time.Duration, args []string, stdout, stderr io.Writer) int {
	// Before anything else: work done here counts as the container's.
	if len(args) == 1 && args[0] == "mark" {
		return mark(first, stdout, stderr)
	}
	if slices.Equal(args, []string{"mark", "hold"}) {
		return markHold(first, stdout, stderr)
	}
	if len(args) == 0 {
		return usageError(stderr, "no task given: use mark or one of:", taskNames())
	}
	for _, t := range tasks() {
		if t.name != args[0] {
			continue
		}
		code := t.run(args[1:], stdout, stderr)
		if code == exitUsage {
			return usageError(stderr, "usage: tare-agent", t.name, t.usage)
		}
		return code
	}
	return usageError(stderr, fmt.Sprintf("there is no task %q: use mark or one of:", args[0]), taskNames())
}

func taskNames() string {
	var names []string
	for _, t := range tasks() {
		names = append(names, t.name)
	}
	return strings.Join(names, " ")
}

// usageError prints one line and returns the status for it.
func usageError(stderr io.Writer, words ...any) int {
	_, _ = fmt.Fprintln(stderr, append([]any{"tare-agent:"}, words...)...) // an error here has nowhere to go
	return exitUsage
}

// result turns the error of a task into its exit status.
func result(stderr io.Writer, task string, err error) int {
	if err == nil {
		return exitOK
	}
	_, _ = fmt.Fprintf(stderr, "tare-agent: %s: %v\n", task, err) // as above
	return exitFailed
}
