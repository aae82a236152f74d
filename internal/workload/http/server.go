package http

import (
	"cmp"
	"context"
	"errors"
	"net/netip"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/image"
	"github.com/tare-bench/tare/internal/kernel/affinity"
	"github.com/tare-bench/tare/internal/kernel/netpath"
	"github.com/tare-bench/tare/internal/load/http"
	"github.com/tare-bench/tare/internal/supervise"
	"github.com/tare-bench/tare/internal/text/unit"
)

// A server is the kind of server of a cell.
type server int

const (
	builtIn     server = iota // the agent
	nginxServer               // nginx, with tare's configuration
	imageServer               // the image's own server
)

func (s server) String() string {
	return [...]string{"tare's own server", "server nginx", "the image's own server"}[s]
}

func kindOf(t bench.Task) server {
	name, isHost := strings.CutPrefix(t.Spec.Image, "host:")
	switch {
	case t.Params["server"] == ofImage:
		return imageServer
	case t.Params["server"] == nginx || isHost && filepath.Base(name) == nginx:
		return nginxServer
	case t.Spec.Image == "" || t.Spec.Image == bench.AgentImage:
		return builtIn
	default:
		return imageServer
	}
}

// A fixture is what the trials of one cell share.
type fixture struct {
	task       bench.Task
	contentDir contentDir
	kind       server
	server     bench.Spec   // of the server's container
	port       uint16       // of the server; 0 = the server reports it
	client     bench.Engine // the engine that makes the client
	clientSpec bench.Spec   // of the client, without its arguments
	cpus       struct{ client, server []int }
	separate   bool // client and server run on separate CPUs
	room       int  // connections that tare's nginx accepts; 0 = another server
}

// Setup implements bench.Fixturer.
func (w workload) Setup(ctx context.Context, t bench.Task) (bench.Fixture, error) {
	s, err := w.newFixture(ctx, t)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// newFixture makes the stage of a cell.
func (w workload) newFixture(ctx context.Context, t bench.Task) (*fixture, error) {
	spec, err := onNetwork(ctx, t)
	if err != nil {
		return nil, err
	}
	size, err := unit.ParseBytes(t.Params["size"])
	if err != nil {
		return nil, err
	}
	s := &fixture{task: t, kind: kindOf(t), server: spec, client: t.Client}
	if spec.Reach == bench.ReachPeer {
		s.client, s.clientSpec = t.Engine, spec
		s.clientSpec.Limits, s.clientSpec.Image, s.clientSpec.Argv, s.clientSpec.Mounts, s.clientSpec.Env = bench.Limits{},
			"", nil, nil, nil
	}
	if t.Params["pin"] == "yes" {
		s.cpus.client, s.cpus.server = affinity.Apart(spec.Limits.CPUSet, runtime.NumCPU())
	}
	if s.contentDir, err = newContentDir(t.Dir, size); err != nil {
		return nil, err
	}
	if err = w.serve(ctx, s); err == nil {
		err = s.separateCPUs(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, s.contentDir.remove())
	}
	return s, nil
}

// serve decides what the container runs.
func (w workload) serve(ctx context.Context, s *fixture) (err error) {
	own := supervise.OwnNetwork(s.server.Network)
	if s.port, err = s.portFor(s.task.Params["port"], own); err != nil {
		return err
	}
	if s.port == 0 {
		if s.port, err = w.portOf(ctx, s.task); err != nil {
			return err
		}
	}
	if own {
		s.server.Ports = []bench.Port{{Container: s.port, Protocol: "tcp"}}
	}
	mounts := s.contentDir.mounts(s.task.Engine)
	switch s.kind {
	case builtIn:
		options := map[string]string{
			"root": s.contentDir.content(), "port": strconv.Itoa(int(s.port)), "cpus": affinity.Format(s.cpus.server),
		}
		s.server.Argv = supervise.Loads(nil, supervise.LoadOf(http.ServerName, options))
	case nginxServer:
		if s.server.Image == "" {
			s.server.Image = "host:" + nginx
		}
		s.server.Argv, err = s.nginx()
	default:
		mounts = []bench.Mount{{Type: "bind", Source: s.contentDir.content(), Target: s.task.Params["root"], ReadOnly: true}}
	}
	s.server.Mounts = slices.Concat(s.server.Mounts, mounts)
	return err
}

// The ports of servers in a network of their own.
const (
	builtInPort = 8080
	imagePort   = 80
	tlsPort     = 443
)

// portFor returns the port of the server; 0 = the one that its image names.
func (s *fixture) portFor(asked string, own bool) (uint16, error) {
	port, err := strconv.ParseUint(asked, 10, 16)
	switch {
	case err != nil:
		return 0, err
	case port != 0:
		return uint16(port), nil
	case s.kind == imageServer && s.task.Params["tls"] == "yes":
		return tlsPort, nil
	case s.kind == imageServer:
		return 0, nil
	case own:
		return builtInPort, nil
	default:
		return netpath.FreePort(netip.IPv4Unspecified(), "tcp")
	}
}

// portOf returns the port that an image names, or else the usual port of web servers.
func (w workload) portOf(ctx context.Context, t bench.Task) (uint16, error) {
	img, err := w.images(t.Dir).ResolveIn(ctx, t.Engine, t.Spec.Image)
	switch {
	case errors.Is(err, image.ErrForeign): // only the engine can read it
		return imagePort, nil
	case err != nil:
		return 0, err
	case img.Port() != 0:
		return img.Port(), nil
	default:
		return imagePort, nil
	}
}

// onNetwork returns the cell's Spec with a network on which a client can reach the
// server: if the cell names none, a bridge, or the host's network if the engine has none.
func onNetwork(ctx context.Context, t bench.Task) (bench.Spec, error) {
	spec := t.Spec
	spec.Storage, spec.Data = "", "" // a server keeps no data
	if spec.Network != "" {
		return spec, nil
	}
	t.Spec = bench.Spec{Limits: spec.Limits, Security: spec.Security, Runtime: spec.Runtime, Snapshotter: spec.Snapshotter}
	found, err := supervise.Reachable(ctx, t, nil)
	spec.Network, spec.Reach = found.Network, cmp.Or(found.Reach, spec.Reach)
	return spec, err
}

// Reset implements bench.Fixture: it prepares the containers of the trial.
func (s *fixture) Reset(ctx context.Context) error { return batch{s}.Reset(ctx) }

// Remove implements bench.Fixture.
func (s *fixture) Remove(context.Context) error { return s.contentDir.remove() }

// path returns the path to request, and the length of the answer; -1 = unknown.
func (s *fixture) path() (string, int64) {
	if p := s.task.Params["path"]; p != "" {
		return p, -1
	}
	size, err := unit.ParseBytes(s.task.Params["size"])
	if err != nil {
		return "/" + document, -1 // cannot happen: size was validated
	}
	return "/" + document, size
}
