package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strconv"
	"syscall"

	"github.com/tare-bench/tare/internal/agent"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/kernel/affinity"
	"github.com/tare-bench/tare/internal/kernel/netpath"
	load "github.com/tare-bench/tare/internal/load/postgres"
	"github.com/tare-bench/tare/internal/supervise"
	"github.com/tare-bench/tare/internal/supervise/capacity"
)

// A fixture is what the trials of one cell share.
type fixture struct {
	task     bench.Task
	options  options
	program  program
	template *template
	settings []setting
	spec     bench.Spec // of the server's container
	port     uint16
	socket   string // directory of the Unix socket; empty = clients use TCP
	sockets  supervise.SocketDir

	client     bench.Engine // makes the clients
	clientSpec bench.Spec   // without arguments
	toolPath   string       // pgbench on this host, if that is the client
	cpus       struct{ client, server []int }
}

// serverUser is who runs the server in all cells: if tare is root, a number that no system has, since the server needs
// no user that has a name; otherwise tare's own user, because a plain process can have no other. That is not the same
// everywhere if its number is too large for a rootless container.
func serverUser() (user string, everywhere bool) {
	const usual, mostInside = "54321:54321", 1 << 16
	uid, gid := os.Geteuid(), os.Getegid()
	if uid == 0 || max(uid, gid) >= mostInside {
		return usual, uid == 0
	}
	return fmt.Sprintf("%d:%d", uid, gid), true
}

// What a server gets in all cells alike.
const (
	openFiles = 4096
	oomScore  = "0"
)

// clusterDir is the copy of the cluster inside.
const clusterDir = bench.DataDir + "/pgdata"

// Socketed implements bench.Socketed.
func (workload) Socketed() {}

// Setup implements bench.Fixturer.
func (w workload) Setup(ctx context.Context, t bench.Task) (bench.Fixture, error) {
	f, err := w.newFixture(ctx, t)
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (w workload) newFixture(ctx context.Context, t bench.Task) (f *fixture, err error) {
	f = &fixture{task: t, client: t.Client}
	if f.options, err = parseOptions(t.Params); err != nil {
		return nil, err
	}
	f.options.turns = t.Turns != nil
	if f.program, err = w.programOf(ctx, t); err != nil {
		return nil, err
	}
	if f.template, err = w.templateOf(ctx, t, f.program, f.options); err != nil {
		return nil, err
	}
	if f.options.tool {
		if f.toolPath, err = w.findTool(ctx, t); err != nil {
			return nil, err
		}
	}
	if err := f.place(ctx); err != nil {
		return nil, errors.Join(err, f.Remove(ctx))
	}
	if f.options.pin {
		f.cpus.client, f.cpus.server = affinity.Apart(f.spec.Limits.CPUSet, runtime.NumCPU())
	}
	if f.spec.Reach == bench.ReachPeer {
		f.client = t.Engine
		f.clientSpec = bench.Spec{
			Network: f.spec.Network, Reach: f.spec.Reach, Runtime: f.spec.Runtime, Snapshotter: f.spec.Snapshotter,
			Security: f.spec.Security,
		}
	}
	f.command()
	return f, nil
}

// place chooses the network and the storage of the server.
func (f *fixture) place(ctx context.Context) (err error) {
	spec := f.task.Spec
	spec.Image = imageOf(f.task)
	spec.Argv = nil
	if spec.Storage, err = f.storage(ctx, spec); err != nil {
		return err
	}
	f.port = cmp.Or(f.options.port, load.DefaultPort)
	if spec.Reach == bench.ReachSocket {
		f.spec = spec
		f.sockets, err = supervise.NewSocketDir(f.task.Dir, load.SocketPath("", int(f.port)))
		f.socket = f.sockets.Path
		f.spec.Mounts = slices.Concat(spec.Mounts, f.sockets.Mounts(f.task.Engine))
		return err
	}
	if f.spec, err = f.onNetwork(ctx, spec); err != nil {
		return err
	}
	if supervise.OwnNetwork(f.spec.Network) {
		f.spec.Ports = []bench.Port{{Container: f.port, Protocol: "tcp"}}
	} else if f.options.port == 0 {
		f.port, err = netpath.FreePort(netip.IPv4Unspecified(), "tcp")
	}
	return err
}

// storage returns where the data lie if the cell does not say: in a volume, or a directory of the host
// if the engine has no volumes. A plain process has only that.
func (f *fixture) storage(ctx context.Context, spec bench.Spec) (string, error) {
	if _, plain := bench.As[bench.DataKeeper](f.task.Engine); plain || spec.Storage != "" {
		return spec.Storage, nil
	}
	var err error
	for _, spec.Storage = range []string{"volume", "bind"} {
		if err = f.task.Engine.Prepare(ctx, spec); !errors.Is(err, bench.ErrUnsupported) {
			break
		}
	}
	return spec.Storage, err
}

// onNetwork returns spec with a network on which a client can reach the server: if the cell names
// none, a bridge, or the host's network if the engine has none.
func (f *fixture) onNetwork(ctx context.Context, spec bench.Spec) (bench.Spec, error) {
	t := f.task
	t.Spec = bench.Spec{
		Image: spec.Image, Network: spec.Network, Limits: spec.Limits, Security: spec.Security, Runtime: spec.Runtime,
		Snapshotter: spec.Snapshotter,
	}
	if _, plain := bench.As[bench.DataKeeper](f.task.Engine); plain {
		t.Spec.Image = ""
	}
	found, err := supervise.Reachable(ctx, t, nil)
	spec.Network, spec.Reach = found.Network, cmp.Or(found.Reach, spec.Reach)
	return spec, err
}

// command decides what the container runs.
func (f *fixture) command() {
	at := place{addresses: "127.0.0.1", port: f.port}
	switch {
	case f.socket != "":
		at.addresses, at.socket = "", f.socket
	case supervise.OwnNetwork(f.spec.Network):
		at.addresses = "*"
	}
	f.settings = serverSettings(f.options, f.template.version, at)
	if f.options.entry {
		f.spec.Env = slices.Concat(f.spec.Env, f.entryEnv())
	}
	f.spec = f.launch().Spec(f.task.Engine, f.spec)
}

// launch says how the server is started: in every cell on the same CPUs and at a word, and unless the image's own
// entry point does it, with all else alike.
func (f *fixture) launch() supervise.Launch {
	l := supervise.Launch{
		Launch: agent.Launch{CPUs: affinity.Format(f.cpus.server), Wait: true}, Agent: f.template.agent,
	}
	program := f.program.entry
	if !f.options.entry {
		program = []string{f.program.path, "-D", clusterDir}
		l.Template, l.Target = f.template.data(), clusterDir
		l.User, _ = serverUser()
		l.Files, l.OOM, l.Cold = openFiles, oomScore, f.options.cold
	}
	l.Program = slices.Concat(program, arguments(f.settings))
	return l
}

// Reset implements bench.Fixture: it prepares the containers of the trial, and checks that there is
// room for the data.
func (f *fixture) Reset(ctx context.Context) error {
	if err := f.room(); err != nil {
		return err
	}
	if f.socket != "" {
		if err := f.sockets.Clear(); err != nil {
			return err
		}
	}
	if err := f.task.Engine.Prepare(ctx, f.spec); err != nil {
		return err
	}
	return f.client.Prepare(ctx, f.clientSpec)
}

// Remove implements bench.Fixture.
func (f *fixture) Remove(context.Context) error {
	if f.socket == "" {
		return nil
	}
	return f.sockets.Remove()
}

// reserve is what stays free on the disk, in bytes.
const reserve = 256 << 20

// room checks that the copy and the WAL of a trial fit, where this host can see the place.
func (f *fixture) room() error {
	dir := f.task.Spec.Data
	if dir == "" {
		dir = f.task.Dir
	}
	if _, plain := bench.As[bench.DataKeeper](f.task.Engine); !plain && f.spec.Storage != "bind" {
		return nil
	}
	return checkRoom(dir, "a trial", f.template.bytes+f.options.expectedWAL(),
		"choose another directory with data, a smaller scale, or less time of what writes")
}

// checkRoom returns an error if a directory has no room for what somebody needs there, in bytes.
func checkRoom(dir, who string, need int64, advice string) error {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	free := int64(s.Bavail) * s.Bsize
	if need += reserve; free < need {
		return fmt.Errorf("%s has %d MB free, and %s needs %d MB: %s", dir, free>>20, who, need>>20, advice)
	}
	return nil
}

// clientOptions are the options of the loads of a part, which are one after the other.
func (f *fixture) clientOptions(p part, s *server) (each []map[string]string) {
	for _, clients := range p.order() {
		options := map[string]string{
			"user": userName, "database": userName,
			"script": p.script, "scale": strconv.Itoa(f.options.scale), "clients": strconv.Itoa(clients),
			"connect": f.task.Params["connect"], "warmup": f.task.Params["warmup"], "time": p.time,
			"rate": capacity.RatesOf(f.task, Name).Of(f.task.Condition, p.rate),
			"seed": strconv.FormatUint(p.seed, 10), "cpus": affinity.Format(f.cpus.client),
		}
		if p.sweep == nil {
			options["stay"] = "yes"
		} else { // those of a step would be beside the next one's
			options["linger"] = lingerTime.String()
		}
		if f.socket != "" {
			options["socket"], options["port"] = f.socket, strconv.Itoa(int(f.port))
		} else {
			options["address"] = s.at.String()
		}
		each = append(each, options)
	}
	return each
}
