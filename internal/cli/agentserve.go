package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/tare-bench/tare/internal/agent"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/host"
	"github.com/tare-bench/tare/internal/plain"
	"github.com/tare-bench/tare/internal/remote"
)

func (a *app) agentCommand() *cobra.Command {
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

func (a *app) agentServeCommand() *cobra.Command {
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
  tare agent serve --listen 192.0.2.1:8273 --token-file /etc/tare.token --engine native,docker`,
		Args: none,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.agentServe(cmd.Context(), o) },
	}
	f := cmd.Flags()
	f.StringVar(&o.listen, "listen", ":"+remotePort, "`address` to be reached at: HOST:PORT, or :PORT for every interface")
	f.StringVar(&a.tokenFile, "token-file", "", "`file` with the token, or to put a new one into")
	f.StringArrayVarP(&o.engines, "engine", "e", nil, "engines to lend: `names` with commas; ENGINE,name=N,OPTION=VALUE declares another instance (default: all)")
	f.StringSliceVar(&o.images, "allow-image", nil, "images that clients may use beside tare's own: `references` with commas")
	f.IntVar(&o.sessions, "sessions", 1, "how many clients at once: `N`; they disturb one another")
	f.IntVar(&o.containers, "containers", 64, "how many containers at once for each client: `N`")
	completeFlag(cmd, "engine", completeList(names(builtinInstances())...))
	return cmd
}

func (a *app) agentServe(ctx context.Context, o serveOptions) error {
	if o.sessions < 1 || o.containers < 1 {
		return &usageError{errors.New("--sessions and --containers are at least 1"), ""}
	}
	offered, err := a.offered(o.engines)
	if err != nil {
		return err
	}
	state, err := a.stateDir()
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
	return remote.Serve(ctx, l, remote.Config{
		Token: token, Version: toolVersion(),
		Machine: func(ctx context.Context) remote.Machine { return thisMachine(ctx, state, offered) },
		Open:    func() (remote.Site, error) { return a.openLent(state, offered) },
		Permit:  func(spec bench.Spec) error { return permit(spec, o.images) },
		Log: func(text string) {
			telling.Lock()
			defer telling.Unlock()
			a.notice("%s", text)
		},
		Sessions: o.sessions, Containers: o.containers,
	})
}

// offered lists the engines that are lent: all, or those that are named.
func (a *app) offered(flags []string) ([]instance, error) {
	chosen, declared, err := parseEngines(flags)
	if err != nil {
		return nil, err
	}
	all := instances(builtinInstances(), declared)
	if len(chosen) > 0 {
		all = slices.DeleteFunc(all, func(i instance) bool { return !slices.Contains(chosen, i.Name) })
	}
	for _, name := range chosen {
		if !slices.Contains(names(all), name) {
			return nil, &usageError{fmt.Errorf("no engine %q", name), "built in are " + strings.Join(names(builtinInstances()), ", ")}
		}
	}
	for _, i := range all {
		if i.Driver == remoteDriver {
			return nil, &usageError{fmt.Errorf("engine %s is on another machine", i.Name), "serve on that one"}
		}
		if _, err := openEngine(a.newSite("serve", ""), i); err != nil {
			return nil, err // an option that there is not
		}
	}
	return all, nil
}

// serverToken returns the token that the user has given, or makes one. Made says
// whether it is to be shown.
func (a *app) serverToken() (t remote.Token, made bool, err error) {
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
func (a *app) announceServer(at net.Addr, offered []instance, token remote.Token, show bool) error {
	if a.global.JSON {
		return a.printJSON(struct {
			Listen  string   `json:"listen"`
			Engines []string `json:"engines"`
		}{at.String(), names(offered)})
	}
	name := host.Facts(fsRoot).Hostname
	fmt.Fprintf(a.stdout, "lending %s of %s at %s, until interrupted\n", strings.Join(names(offered), ", "), plain.Line(name), at)
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

// thisMachine is what clients are told of this machine.
func thisMachine(ctx context.Context, state string, offered []instance) remote.Machine {
	facts := host.Facts(fsRoot)
	return remote.Machine{
		Host: facts, Engines: names(offered),
		Warnings: host.Checks(ctx, host.Examination{Root: fsRoot, Facts: facts, Dirs: []string{existing(state)}}),
	}
}

// lent is what one client works with. It has a directory like a run's, so that
// 'tare clean' finds what is left where this process dies.
type lent struct {
	dir     *runDir
	site    site
	offered []instance
}

func (a *app) openLent(state string, offered []instance) (remote.Site, error) {
	id := newRunID(a.now())
	dir, err := newRunDir(state, id, offered)
	if err != nil {
		return nil, err
	}
	return lent{dir, a.newSite(id, filepath.Join(state, "runs", id)), offered}, nil
}

// Name implements remote.Site.
func (l lent) Name() string { return l.dir.id }

// Engine implements remote.Site.
func (l lent) Engine(name string) (bench.Engine, error) {
	i := slices.IndexFunc(l.offered, func(i instance) bool { return i.Name == name })
	if i < 0 {
		return nil, fmt.Errorf("%w: engine %.80q is not lent here: there is %s", bench.ErrUnsupported, name, strings.Join(names(l.offered), ", "))
	}
	return openEngine(l.site, l.offered[i])
}

// Close implements remote.Site.
func (l lent) Close() error { return l.dir.remove() }

// errForbidden is wrapped by what a server does not let clients do.
var errForbidden = errors.New("this server does not allow it")

// A permission says what a client may ask for in one field of a bench.Spec: why what
// spec has there is refused, or nothing.
type permission func(spec bench.Spec, images []string) (refused string)

// permissions lists for each field, by name, what a client may ask for: what tare's own
// measurements of networks need, and no more. Whoever has the token must not get at the
// machine's files, nor have it run a program of his choice. A field that has no
// permission here is refused; a test wants one for each.
func permissions() map[string]permission {
	return map[string]permission{
		"Image": func(spec bench.Spec, images []string) string {
			return unless(own(spec) || slices.Contains(images, spec.Image), "image %.100q: --allow-image there adds it", spec.Image)
		},
		"Argv": func(spec bench.Spec, _ []string) string {
			allowed := !own(spec) || len(spec.Argv) == 0 || answers(spec.Argv)
			return unless(allowed, "%.100q: only what answers over the network is run for others", strings.Join(spec.Argv, " "))
		},
		"Env": func(spec bench.Spec, _ []string) string {
			return unless(!own(spec) || !slices.ContainsFunc(spec.Env, foreign), "an environment for tare's own image")
		},
		"Dir": func(spec bench.Spec, _ []string) string {
			return unless(!own(spec) || spec.Dir == "", "a directory for tare's own image")
		},
		"Mounts": func(spec bench.Spec, _ []string) string {
			return unless(len(spec.Mounts) == 0, "files of the host in a container")
		},
		"Network": func(spec bench.Spec, _ []string) string {
			return oneOf(spec.Network, "network", "none", "host", "bridge", "macvlan", "slirp4netns", "pasta")
		},
		"Reach": func(spec bench.Spec, _ []string) string {
			return oneOf(spec.Reach, "reach", bench.ReachPublished, bench.ReachPeer)
		},
		"Ports": permitPorts,
		"Storage": func(spec bench.Spec, _ []string) string {
			return unless(spec.Storage == "", "storage %.80q", spec.Storage)
		},
		"Data": func(spec bench.Spec, _ []string) string {
			return unless(spec.Data == "", "files of the host in a container")
		},
		"DataName": func(spec bench.Spec, _ []string) string {
			return unless(spec.DataName == "", "data that outlive their container")
		},
		"Limits":   permitLimits,
		"Security": permitSecurity,
		// Engines look programs up by these names.
		"Runtime": func(spec bench.Spec, _ []string) string {
			return oneOf(spec.Runtime, "runtime", "runc", "crun", "youki", "runsc", "io.containerd.runc.v2")
		},
		"Snapshotter": func(spec bench.Spec, _ []string) string {
			return oneOf(spec.Snapshotter, "snapshotter", "overlayfs", "native")
		},
	}
}

// permit refuses what a client may not have this machine run.
func permit(spec bench.Spec, images []string) error {
	all := permissions()
	fields := reflect.ValueOf(spec)
	for i := range fields.NumField() {
		name := fields.Type().Field(i).Name
		allowed := all[name]
		switch {
		case allowed == nil && fields.Field(i).IsZero():
		case allowed == nil:
			return forbidden(strings.ToLower(name))
		default:
			if refused := allowed(spec, images); refused != "" {
				return forbidden(refused)
			}
		}
	}
	return nil
}

func forbidden(what string) error {
	return fmt.Errorf("%w: %s (%w)", errForbidden, what, bench.ErrUnsupported)
}

// own reports whether a container is to be of tare's own image.
func own(spec bench.Spec) bool { return spec.Image == "" || spec.Image == bench.AgentImage }

func unless(allowed bool, format string, args ...any) string {
	if allowed {
		return ""
	}
	return fmt.Sprintf(format, args...)
}

// oneOf allows words, and none.
func oneOf(word, what string, allowed ...string) string {
	return unless(word == "" || slices.Contains(allowed, word), "%s %.80q: there are %s", what, word, strings.Join(allowed, ", "))
}

// permitPorts keeps clients from the ports that are the system's. The address is the
// one by which the client has come, whatever it asks for.
func permitPorts(spec bench.Spec, _ []string) string {
	for _, p := range spec.Ports {
		if p.Host != 0 && p.Host < 1024 {
			return fmt.Sprintf("port %d of the host: use 1024 or higher", p.Host)
		}
		if refused := oneOf(p.Protocol, "protocol", "tcp", "udp"); refused != "" {
			return refused
		}
	}
	return ""
}

func permitLimits(spec bench.Spec, _ []string) string {
	l := spec.Limits
	lists := strings.Trim(l.CPUSet, "0123456789-,") == ""
	return unless(l.CPUs >= 0 && l.Memory >= 0 && l.Pids >= 0 && lists, "limits that are no limits")
}

func permitSecurity(spec bench.Spec, _ []string) string {
	s := spec.Security
	if s.Privileged {
		return "privileged containers"
	}
	return oneOf(s.Seccomp, "seccomp", "unconfined", bench.SeccompDocker)
}

// answers reports whether argv is the agent running loads that only answer what
// comes over the network.
func answers(argv []string) bool {
	if len(argv) < 3 || argv[0] != agent.Path || argv[1] != "load" {
		return false
	}
	name := true
	for _, word := range argv[2:] {
		if name && !slices.Contains(answeringLoads(), word) {
			return false
		}
		name = word == agent.LoadSeparator
	}
	return true
}

// answeringLoads lists the loads that do nothing but answer: they write no file
// and start nothing, whatever their options.
func answeringLoads() []string { return []string{"net-server"} }

// foreign reports whether KEY=VALUE is not what answering loads are given: the
// token by which they know their client.
func foreign(kv string) bool { return !strings.HasPrefix(kv, "TARE_NET_TOKEN=") }
