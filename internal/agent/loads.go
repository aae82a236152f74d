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

// A loader is one load that the agent can run.
type loader struct {
	name string
	run  func(*load.Args) (*load.Report, error)
}

// loaders returns every load.
func loaders() []loader {
	return []loader{
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

// runLoads waits until the machine has settled, runs loads one after the other, and
// prints the report of each. Then it stays until it is stopped: the kernel tells the
// usage of a process only while it exists.
func runLoads(args []string, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		return exitUsage
	}
	term := terminated()
	var page *turn.Page
	if args[0] == turn.Option {
		args = args[1:]
		// Without a page it works alone, and tare finds out.
		page, _ = turn.NewPage(func(err error) { os.Exit(result(stderr, "load", err)) })
	}
	load.Settle(settleLimit)
	for len(args) > 0 {
		end := slices.Index(args, LoadSeparator)
		one := args
		if args = nil; end >= 0 {
			one, args = one[:end], one[end+1:]
		}
		if err := runLoad(one, page, stdout); err != nil {
			return result(stderr, "load", err)
		}
		page.Reported(len(args) == 0)
	}
	<-term
	return exitOK
}

func runLoad(words []string, page *turn.Page, stdout io.Writer) error {
	if len(words) == 0 {
		return fmt.Errorf("no load given: use one of %s", loadNames())
	}
	i := slices.IndexFunc(loaders(), func(l loader) bool { return l.name == words[0] })
	if i < 0 {
		return fmt.Errorf("there is no load %q: use one of %s", words[0], loadNames())
	}
	args, err := load.ParseArgs(words[1:])
	if err != nil {
		return fmt.Errorf("%s: %w", words[0], err)
	}
	args.Turns = page
	report, err := loaders()[i].run(args)
	if err != nil {
		return fmt.Errorf("%s: %w", words[0], err)
	}
	line, err := report.Line()
	if err != nil {
		return err
	}
	_, err = stdout.Write(line)
	return err
}

func loadNames() string {
	var names []string
	for _, l := range loaders() {
		names = append(names, l.name)
	}
	return strings.Join(names, " ")
}
