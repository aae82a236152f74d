package cri

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	containerd "github.com/containerd/containerd/v2/client"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/tare-bench/tare/internal/bench"
)

// maxAnswer bounds one answer of a server. It is what the kubelet takes.
const maxAnswer = 16 << 20

// endpoints are where servers listen, in the order in which they are tried.
func endpoints() []string {
	return []string{"/run/containerd/containerd.sock", "/run/crio/crio.sock", "/var/run/cri-dockerd.sock"}
}

// A server is a connection to a server, and what it says of itself.
type server struct {
	cri.RuntimeServiceClient
	images cri.ImageServiceClient
	store  *containerd.Client // to load images with; nil if it is no containerd
	conn   *grpc.ClientConn
	socket string

	version  *cri.VersionResponse
	config   configuration
	lacks    atomic.Pointer[string] // the image of a pod's first process that it asked for in vain
	handlers []string               // its runtimes; nil where it does not tell
	network  string                 // CNI plugin of a pod's network, such as "bridge"; empty where there is none or it does not tell
	portmap  bool                   // that network has ports of the host
	cgroups  string                 // "cgroupfs" or "systemd"
}

// ask connects to the server, and returns what it says of itself. It asks once.
func (e *Engine) ask(ctx context.Context) (*server, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.server != nil {
		return e.server, nil
	}
	if err := errors.Join(bench.ValidRunID(e.cfg.Name), bench.ValidRunID(e.cfg.Run)); err != nil {
		return nil, err
	}
	s, err := e.connect(ctx)
	if err != nil {
		return nil, err
	}
	if err := e.describe(ctx, s); err != nil {
		return nil, errors.Join(err, s.conn.Close())
	}
	e.server = s
	return s, nil
}

func (e *Engine) connect(ctx context.Context) (*server, error) {
	socket, err := e.socket()
	if err != nil {
		return nil, err
	}
	if err := e.reach(ctx, socket); err != nil {
		return nil, err
	}
	conn, err := grpc.NewClient("unix://"+socket,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswer)),
		grpc.WithIdleTimeout(0), // no call opens a connection
		grpc.WithConnectParams(grpc.ConnectParams{ // a server that was restarted is there soon
			Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.5, MaxDelay: time.Second},
			MinConnectTimeout: 5 * time.Second,
		}),
		grpc.WithUserAgent("tare"))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", e.cfg.Name, err)
	}
	return &server{
		RuntimeServiceClient: cri.NewRuntimeServiceClient(conn),
		images:               cri.NewImageServiceClient(conn),
		conn:                 conn,
		socket:               socket,
	}, nil
}

// socket is the path of the server's socket.
func (e *Engine) socket() (string, error) {
	if e.cfg.Endpoint == "" {
		for _, path := range endpoints() {
			if _, err := os.Stat(path); err == nil {
				return path, nil
			}
		}
		return "", fmt.Errorf("%w: %s: no CRI server: there is none of %s: install containerd or CRI-O and start it, or name its socket",
			bench.ErrUnsupported, e.cfg.Name, strings.Join(endpoints(), ", "))
	}
	path := strings.TrimPrefix(e.cfg.Endpoint, "unix://")
	if !strings.HasPrefix(path, "/") {
		return "", fmt.Errorf("%s: endpoint %q: want a socket, such as unix://%s", e.cfg.Name, e.cfg.Endpoint, endpoints()[0])
	}
	return path, nil
}

// reach tells a server that is not there from one that does not answer, for
// which gRPC has one code.
func (e *Engine) reach(ctx context.Context, socket string) error {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", socket)
	switch {
	case err == nil:
		return conn.Close()
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w: %s: no permission for %s: run tare with sudo: %w", bench.ErrUnsupported, e.cfg.Name, socket, err)
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("%w: %s: no CRI server runs at %s: start it, with `systemctl start containerd` or `containerd`: %w",
			bench.ErrUnsupported, e.cfg.Name, socket, err)
	}
	return e.failed(ctx, "connect to "+socket, err)
}

// describe asks the server what it is.
func (e *Engine) describe(ctx context.Context, s *server) error {
	var err error
	s.version, err = s.Version(ctx, &cri.VersionRequest{})
	if status.Code(err) == codes.Unimplemented {
		return fmt.Errorf("%w: %s: what listens at %s does not serve CRI v1: take \"cri\" from disabled_plugins in containerd's config.toml, or use containerd 1.6, CRI-O 1.23 or newer",
			bench.ErrUnsupported, e.cfg.Name, s.socket)
	}
	if err != nil {
		return e.failed(ctx, "version", err)
	}
	answer, err := s.Status(ctx, &cri.StatusRequest{Verbose: true})
	if err != nil {
		return e.failed(ctx, "status", err)
	}
	for _, c := range answer.GetStatus().GetConditions() {
		if c.Type == cri.RuntimeReady && !c.Status {
			return e.failed(ctx, "status", fmt.Errorf("it is not ready: %.300q", c.Message))
		}
	}
	s.learn(answer)
	if s.version.RuntimeName == "containerd" {
		s.store, err = containerd.NewWithConn(s.conn)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", e.cfg.Name, err)
	}
	return e.describeCgroups(ctx, s)
}

// describeCgroups asks who makes control groups. Servers from before that call
// tell it among their configuration.
func (e *Engine) describeCgroups(ctx context.Context, s *server) error {
	answer, err := s.RuntimeConfig(ctx, &cri.RuntimeConfigRequest{})
	switch {
	case status.Code(err) == codes.Unimplemented:
		s.cgroups = "cgroupfs"
		if r := s.config.Containerd; r.Runtimes[r.DefaultRuntimeName].Options.SystemdCgroup {
			s.cgroups = "systemd"
		}
	case err != nil:
		return e.failed(ctx, "runtime config", err)
	case answer.Linux != nil:
		s.cgroups = strings.ToLower(answer.Linux.CgroupDriver.String())
	}
	return nil
}

// configuration is what is needed of what servers tell of theirs. The interface
// leaves it to them.
type configuration struct {
	SandboxImage string `json:"sandboxImage"`
	Containerd   struct {
		Snapshotter        string `json:"snapshotter"`
		DefaultRuntimeName string `json:"defaultRuntimeName"`
		Runtimes           map[string]struct {
			Options struct{ SystemdCgroup bool } `json:"options"`
		} `json:"runtimes"`
	} `json:"containerd"`
}

// cniConfiguration is containerd's, as far as it is needed.
type cniConfiguration struct {
	Networks []struct {
		IFName string
		Config struct {
			Plugins []struct {
				Network struct {
					Type string `json:"type"`
				}
			}
		}
	}
}

// learn takes from the answer what it tells. What it does not tell, or not as
// others do, stays empty.
func (s *server) learn(answer *cri.StatusResponse) {
	var config configuration
	if json.Unmarshal([]byte(answer.Info["config"]), &config) == nil {
		s.config = config
	}
	for name := range config.Containerd.Runtimes {
		s.handlers = append(s.handlers, name)
	}
	for _, h := range answer.RuntimeHandlers {
		s.handlers = append(s.handlers, h.Name)
	}
	slices.Sort(s.handlers)
	s.handlers = slices.Compact(s.handlers)

	var cni cniConfiguration
	if json.Unmarshal([]byte(answer.Info["cniconfig"]), &cni) != nil {
		return
	}
	for _, n := range cni.Networks {
		if n.IFName != "lo" && len(n.Config.Plugins) > 0 {
			s.network = n.Config.Plugins[0].Network.Type
			for _, p := range n.Config.Plugins {
				s.portmap = s.portmap || p.Network.Type == "portmap"
			}
			return
		}
	}
}
