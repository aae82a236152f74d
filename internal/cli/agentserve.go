package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/tare-bench/tare/internal/app"
	"github.com/tare-bench/tare/internal/kernel/host"
	"github.com/tare-bench/tare/internal/remote"
	"github.com/tare-bench/tare/internal/text/plain"
)

func (a *invocation) agentCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "agent",
		Short: "Let tare on another machine use this machine's engines",
		Args:  unknownCommand,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.agentServeCommand(), a.agentLoadCommand())
	return cmd
}

// serveOptions are the flags of 'tare agent serve'.
type serveOptions struct {
	listen     string
	engines    []string
	images     []string
	sessions   int
	containers int
}

func (a *invocation) agentServeCommand() *cobra.Command {
	var o serveOptions
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve this machine's engines to clients that have the token",
		Long: `Serve waits for tare on another machine, which measures servers here over the
network: 'tare run net-rtt --remote HOST'. It creates a token and prints it
once, unless $TARE_TOKEN or --token-file has one. If the token file does not
exist, it is created.

Connections are encrypted, and clients need the token: keep it like a password.
With it they can start the servers of tare's own network measurements here, as
containers and as plain processes, and nothing else. Everybody can reach these
servers. --allow-image adds images; clients can run any program in them. When a
connection ends, everything that its client made is removed. All this is logged
on stderr.`,
		Example: `  tare agent serve
  tare agent serve --token-file /etc/tare.token --engine native,docker
  tare agent serve --listen 192.0.2.1:8273`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.agentServe(cmd.Context(), o) },
	}
	f := cmd.Flags()
	f.StringVar(&o.listen, "listen", ":"+app.RemotePort, "`address` to listen on: HOST:PORT, or :PORT for every interface")
	f.StringVar(&a.tokenFile, "token-file", "", "`file` that has the token; if it does not exist, it is created with a "+
		"new one")
	f.StringArrayVarP(&o.engines, "engine", "e", nil,
		"comma-separated `names` of engines to serve; ENGINE,name=N,OPTION=VALUE adds another instance (default: all)")
	f.StringSliceVar(&o.images, "allow-image", nil, "comma-separated `references` of images that clients may use "+
		"besides tare's own")
	f.IntVar(&o.sessions, "sessions", 1, "number of clients at the same time: `N`; they disturb one another")
	f.IntVar(&o.containers, "containers", 64, "number of containers for each client at the same time: `N`")
	completeFlag(cmd, "engine", completeList(app.Names(app.Builtin())...))
	return cmd
}

func (a *invocation) agentServe(ctx context.Context, o serveOptions) error {
	if o.sessions < 1 || o.containers < 1 {
		return &usageError{errors.New("--sessions and --containers must be at least 1"), ""}
	}
	offered, err := a.instancesOffered(o.engines)
	if err != nil {
		return err
	}
	t, err := a.newApp()
	if err != nil {
		return err
	}
	token, made, err := a.serverToken()
	if err != nil {
		return err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", o.listen)
	if err != nil {
		return &hintError{err, "--listen HOST:PORT chooses another address"}
	}
	if err := a.announceServer(l.Addr(), offered, token, made); err != nil {
		return errors.Join(err, l.Close())
	}
	var telling sync.Mutex
	c := t.Lend(offered, o.images)
	c.Token, c.Sessions, c.Containers = token, o.sessions, o.containers
	c.Log = func(text string) {
		telling.Lock()
		defer telling.Unlock()
		a.notice("%s", text)
	}
	return remote.Serve(ctx, l, c)
}

// instancesOffered lists the engines to serve: all, or those that are named.
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
			return nil, &usageError{fmt.Errorf("unknown engine %q", name), "built-in engines: " +
				"" + strings.Join(app.Names(app.Builtin()), ", ")}
		}
	}
	for _, i := range all {
		if i.Driver == app.RemoteDriver {
			return nil, &usageError{
				fmt.Errorf("engine %s is on another machine", i.Name),
				"run 'tare agent serve' on that machine",
			}
		}
		if _, err := a.tare.EngineSite("serve", "").Engine(i); err != nil {
			return nil, err // such as an unknown option
		}
	}
	return all, nil
}

// serverToken returns the token that the user has given, or makes one. Made says
// whether to show it.
func (a *invocation) serverToken() (t remote.Token, made bool, err error) {
	switch {
	case a.tokenFile != "" && missingFile(a.tokenFile):
		t = remote.NewToken()
		if err := writeToken(a.tokenFile, t); err != nil {
			return t, false, &usageError{err, "--token-file needs a file that has the token, or a new file in a directory " +
				"that exists"}
		}
		return t, false, nil
	case a.tokenFile == "" && a.env(tokenVariable) == "" && a.global.JSON:
		return t, false, &usageError{
			errors.New("--json does not print tokens"),
			"use --token-file FILE; if it does not exist, it is created",
		}
	case a.tokenFile == "" && a.env(tokenVariable) == "":
		return remote.NewToken(), true, nil
	}
	t, err = a.token()
	return t, false, err
}

// announceServer says where the server is and how to get there.
func (a *invocation) announceServer(at net.Addr, offered []app.Instance, token remote.Token, show bool) error {
	if a.global.JSON {
		return a.printJSON(struct {
			Listen  string   `json:"listen"`
			Engines []string `json:"engines"`
		}{at.String(), app.Names(offered)})
	}
	name := host.Facts("/").Hostname
	fmt.Fprintf(a.stdout, "serving %s of %s on %s; press Ctrl-C to stop\n", strings.Join(app.Names(offered), ", "),
		plain.Line(name), at)
	target, whence := advertisedAddress(at, name)
	fmt.Fprintf(a.stdout, "%s:\n\n", whence)
	switch {
	case show:
		fmt.Fprintf(a.stdout, "  export %s=%s\n", tokenVariable, token.Reveal())
	case a.tokenFile != "":
		fmt.Fprintf(a.stdout, "  export %s=…   the token is in %s\n", tokenVariable, plain.Line(a.tokenFile))
	}
	fmt.Fprintf(a.stdout, "  tare run net-rtt --remote %s\n\n", plain.Line(target))
	return a.stdout.err
}

// advertisedAddress returns the address at which clients reach a server, and says from where. It
// has the machine's name only if the server listens on every interface.
func advertisedAddress(at net.Addr, name string) (target, whence string) {
	whence = "on the other machine"
	tcp, ok := at.(*net.TCPAddr)
	switch {
	case ok && tcp.IP.IsUnspecified():
		return net.JoinHostPort(name, strconv.Itoa(tcp.Port)), whence
	case ok && tcp.IP.IsLoopback():
		whence = "on this machine, or through a tunnel to it, because this is a loopback address"
	}
	return at.String(), whence
}
