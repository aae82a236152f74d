package agent

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/tare-bench/tare/internal/load"
	"github.com/tare-bench/tare/internal/load/cpu"
	"github.com/tare-bench/tare/internal/load/disk"
	"github.com/tare-bench/tare/internal/load/http"
	"github.com/tare-bench/tare/internal/load/memory"
	"github.com/tare-bench/tare/internal/load/network"
	"github.com/tare-bench/tare/internal/load/postgres"
	"github.com/tare-bench/tare/internal/load/turn"
)

// LoadSeparator stands between two loads on a command line.
const LoadSeparator = "--"

// A Loader is one load that a program can run.
type Loader struct {
	Name string
	Run  func(*load.Args) (*load.Report, error)
}

// loaders returns every load of the agent.
func loaders() []Loader {
	return []Loader{
		{cpu.Name, cpu.Run},
		{disk.Name, disk.Run},
		{memory.Name, memory.Run},
		{http.ServerName, http.Serve},
		{http.Name, http.Run},
		{"net-server", network.Serve},
		{"net-rtt", network.RTT},
		{"net-throughput", network.Throughput},
		{postgres.Name, postgres.Run},
	}
}

// settleLimit is how long loads wait for the machine to settle.
const settleLimit = 300 * time.Millisecond

// runLoads is the task "load". It stays until it is stopped: see RunLoads.
func runLoads(args []string, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		return exitUsage
	}
	term := terminated()
	err := RunLoads(loaders(), args, stdout, func(err error) { os.Exit(result(stderr, "load", err)) })
	if err == nil {
		<-term
	}
	return result(stderr, "load", err)
}

// RunLoads is what task "load" does with its arguments, for any program that has loads: it waits until the
// machine has settled, runs loads one after the other, and prints the report of each. After that the program has to
// stay until it is stopped: the kernel tells the usage of a process only while it exists. Fail ends the program; it is
// called if the program waits for a turn that nobody gives.
func RunLoads(all []Loader, args []string, stdout io.Writer, fail func(error)) error {
	var page *turn.Page
	if len(args) > 0 && args[0] == turn.Option {
		args = args[1:]
		// Without a page it works alone, and tare finds out.
		page, _ = turn.NewPage(fail)
	}
	if page == nil { // otherwise all cells start before the first turn, and the machine settles then
		load.Settle(settleLimit)
	}
	for more := true; more; {
		one, end := args, slices.Index(args, LoadSeparator)
		if more = end >= 0; more {
			one, args = args[:end], args[end+1:]
		}
		if err := runLoad(all, one, page, stdout); err != nil {
			return err
		}
		page.Reported(!more)
	}
	return nil
}

func runLoad(all []Loader, words []string, page *turn.Page, stdout io.Writer) error {
	if len(words) == 0 {
		return fmt.Errorf("no load given: use one of %s", loadNames(all))
	}
	i := slices.IndexFunc(all, func(l Loader) bool { return l.Name == words[0] })
	if i < 0 {
		return fmt.Errorf("there is no load %q: use one of %s", words[0], loadNames(all))
	}
	args, err := load.ParseArgs(words[1:])
	if err != nil {
		return fmt.Errorf("%s: %w", words[0], err)
	}
	args.Turns = page
	report, err := all[i].Run(args)
	if err != nil {
		return fmt.Errorf("%s: %w", words[0], err)
	}
	line, err := report.Line()
	if err != nil {
		return err
	}
	if _, err = stdout.Write(line); err != nil {
		return err
	}
	if report.Then != nil {
		report.Then()
	}
	return nil
}

func loadNames(all []Loader) string {
	var names []string
	for _, l := range all {
		names = append(names, l.Name)
	}
	return strings.Join(names, ", ")
}
