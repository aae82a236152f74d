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
		Short: "Let tare on another machine use the engines of this one",
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
		Short: "Lend this machine's engines to who has the token, until interrupted",
		Long: `Serve waits for tare on another machine, which measures servers here over the
network: 'tare run net-rtt --remote HOST'. It makes a token and prints it once,
unless $TARE_TOKEN or --token-file has one; a file that does not exist is made.

Connections are encrypted, and only who has the token gets in; keep it like a
password. It can have this machine run what answers in tare's own measurements of
networks, in containers and as plain processes that all can reach, and nothing
else; --allow-image adds images, and what is in them can then be run with any
arguments. What a client made is removed when its connection ends. Each of this
is told on stderr.`,
		Example: `  tare agent serve
  tare agent serve --token-file /etc/tare.token --engine native,docker
  tare agent serve --listen 192.0.2.1:8273`,
		Args: none,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.agentServe(cmd.Context(), o) },
	}
	f := cmd.Flags()
	f.StringVar(&o.listen, "listen", ":"+app.RemotePort, "`address` to be reached at: HOST:PORT, or :PORT for every interface")
	f.StringVar(&a.tokenFile, "token-file", "", "`file` with the token, or to put a new one into")
	f.StringArrayVarP(&o.engines, "engine", "e", nil, "engines to lend: `names` with commas; ENGINE,name=N,OPTION=VALUE declares another instance (default: all)")
	f.StringSliceVar(&o.images, "allow-image", nil, "images that clients may use beside tare's own: `references` with commas")
	f.IntVar(&o.sessions, "sessions", 1, "how many clients at once: `N`; they disturb one another")
	f.IntVar(&o.containers, "containers", 64, "how many containers at once for each client: `N`")
	completeFlag(cmd, "engine", completeList(app.Names(app.Builtin())...))
	return cmd
}

func (a *invocation) agentServe(ctx context.Context, o serveOptions) error {
	if o.sessions < 1 || o.containers < 1 {
		return &usageError{errors.New("--sessions and --containers are at least 1"), ""}
	}
	offered, err := a.offered(o.engines)
	if err != nil {
		return err
	}
	t, err := a.here()
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

// offered lists the engines that are lent: all, or those that are named.
func (a *invocation) offered(flags []string) ([]app.Instance, error) {
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
			return nil, &usageError{fmt.Errorf("no engine %q", name), "built in are " + strings.Join(app.Names(app.Builtin()), ", ")}
		}
	}
	for _, i := range all {
		if i.Driver == app.RemoteDriver {
			return nil, &usageError{fmt.Errorf("engine %s is on another machine", i.Name), "serve on that one"}
		}
		if _, err := a.tare.Site("serve", "").Engine(i); err != nil {
			return nil, err // an option that there is not
		}
	}
	return all, nil
}

// serverToken returns the token that the user has given, or makes one. Made says
// whether it is to be shown.
func (a *invocation) serverToken() (t remote.Token, made bool, err error) {
	switch {
	case a.tokenFile != "" && missingFile(a.tokenFile):
		t = remote.NewToken()
		if err := writeToken(a.tokenFile, t); err != nil {
			return t, false, &usageError{err, "--token-file names a file with the token in it, or one to be made"}
		}
		return t, false, nil
	case a.tokenFile == "" && a.env(tokenVariable) == "" && a.global.JSON:
		return t, false, &usageError{errors.New("--json does not print tokens"), "name a --token-file; one that does not exist is made"}
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
	fmt.Fprintf(a.stdout, "lending %s of %s at %s, until interrupted\n", strings.Join(app.Names(offered), ", "), plain.Line(name), at)
	target, whence := reachedAt(at, name)
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

// reachedAt says by which address a server is reached that listens at one, and from
// where: by the machine's name only if it listens on every interface.
func reachedAt(at net.Addr, name string) (target, whence string) {
	whence = "on the other machine"
	tcp, ok := at.(*net.TCPAddr)
	switch {
	case ok && tcp.IP.IsUnspecified():
		return net.JoinHostPort(name, strconv.Itoa(tcp.Port)), whence
	case ok && tcp.IP.IsLoopback():
		whence = "on this machine, or through a tunnel that ends here: nothing else reaches a loopback address"
	}
	return at.String(), whence
}
