package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/tare-bench/tare/internal/app"
	"github.com/tare-bench/tare/internal/remote"
	"github.com/tare-bench/tare/internal/remote/peer"
	"github.com/tare-bench/tare/internal/text/plain"
)

func (a *invocation) agentCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "agent",
		Short: "What tare on another machine starts here through ssh",
		Args:  unknownCommand,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.agentServeCommand(), a.agentMeasureCommand(), a.agentLoadCommand(), a.agentPodCommand())
	return cmd
}

// serveOptions are the flags of 'tare agent serve'.
type serveOptions struct {
	engines    []string
	images     []string
	containers int
	log        string
}

func (a *invocation) agentServeCommand() *cobra.Command {
	var o serveOptions
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Lend this machine's engines to the tare that has started this through ssh",
		Long: `Serve lends the engines of this machine to tare on another machine, over standard
input and output. 'tare run net-rtt --remote HOST' starts it on HOST through
ssh, with a copy of itself: who may log in there needs nothing else.

Run it from ~/.ssh/authorized_keys to lend engines to somebody who may do nothing
else on this machine:

  restrict,command="/usr/local/bin/tare agent serve" ssh-ed25519 AAAA...

Such a client can start the servers of tare's own network measurements here, as
containers and as plain processes. Everybody can reach these servers.
--allow-image adds images; clients can run any program in them. When the
connection ends, everything that its client made is removed. Every call is
logged.`,
		Example: `  tare agent serve --engine native,docker --log /var/log/tare.log`,
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.agentServe(cmd.Context(), o) },
	}
	f := cmd.Flags()
	f.StringArrayVarP(&o.engines, "engine", "e", nil,
		"comma-separated `names` of engines to lend; ENGINE,name=N,OPTION=VALUE adds another instance (default: all)")
	f.StringSliceVar(&o.images, "allow-image", nil, "comma-separated `references` of images that the client may use "+
		"besides tare's own")
	f.IntVar(&o.containers, "containers", 64, "number of containers at the same time: `N`")
	f.StringVar(&o.log, "log", "", "`file` to append the log to (default: stderr, which ssh passes to the client)")
	completeFlag(cmd, "engine", completeList(app.Names(app.Builtin())...))
	return cmd
}

func (a *invocation) agentServe(ctx context.Context, o serveOptions) error {
	if o.containers < 1 {
		return &usageError{errors.New("--containers must be at least 1"), ""}
	}
	offered, err := a.instancesOffered(o.engines)
	if err != nil {
		return err
	}
	if _, tty := terminal(os.Stdin); tty {
		return &usageError{
			errors.New("'tare agent serve' speaks with another tare, not with a terminal"),
			"on the other machine: tare run net-rtt --remote HOST",
		}
	}
	t, err := a.newApp()
	if err != nil {
		return err
	}
	log, err := a.openLog(o.log)
	if err != nil {
		return err
	}
	c := t.Lend(offered, o.images)
	c.Containers, c.Log = o.containers, log.line
	c.Address = peer.AddressOf(a.env("SSH_CONNECTION"))
	log.line("client " + plain.Line(a.env("SSH_CONNECTION")))
	in, out := peer.Stdio()
	return errors.Join(remote.Serve(ctx, in, out, c), log.Close())
}

// A callLog is where the calls of a client are logged.
type callLog struct {
	mu  sync.Mutex
	to  io.Writer
	end io.Closer // nil for stderr
	now func() time.Time
}

func (a *invocation) openLog(name string) (*callLog, error) {
	if name == "" {
		return &callLog{to: a.stderr, now: a.now}, nil
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return nil, &usageError{err, "--log needs a file that can be written"}
	}
	return &callLog{to: f, end: f, now: a.now}, nil
}

// line writes one line, whatever a client has put into it. Nobody is told where it cannot be written.
func (l *callLog) line(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, _ = fmt.Fprintf(l.to, "%s tare: %s\n", l.now().UTC().Format(time.RFC3339), plain.Line(text))
}

// Close closes the file.
func (l *callLog) Close() error {
	if l.end == nil {
		return nil
	}
	return l.end.Close()
}

// instancesOffered lists the engines to lend: all, or those that are named.
func (a *invocation) instancesOffered(flags []string) ([]app.Instance, error) {
	chosen, declared, err := parseEngines(flags)
	if err != nil {
		return nil, err
	}
	all := app.WithDeclared(app.Builtin(), declared)
	if len(chosen) > 0 {
		all = slices.DeleteFunc(all, func(i app.Instance) bool { return !slices.Contains(chosen, i.Name) })
	}
	for _, name := range chosen {
		if !slices.Contains(app.Names(all), name) {
			return nil, &usageError{
				fmt.Errorf("unknown engine %q", name), "built-in engines: " + strings.Join(app.Names(app.Builtin()), ", "),
			}
		}
	}
	for _, i := range all {
		if i.Driver == app.RemoteDriver {
			return nil, &usageError{
				fmt.Errorf("engine %s is on another machine", i.Name),
				"use --remote with that machine",
			}
		}
		if _, err := a.tare.EngineSite("serve", "").Engine(i); err != nil {
			return nil, err // such as an unknown option
		}
	}
	return all, nil
}
