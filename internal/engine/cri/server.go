package cri

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync/atomic"
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

// maxAnswer limits one answer of a server, in bytes. The kubelet has the same limit.
const maxAnswer = 16 << 20

// endpoints are the usual sockets of servers, in the order in which tare tries them.
func endpoints() []string {
	return []string{"/run/containerd/containerd.sock", "/run/crio/crio.sock", "/var/run/cri-dockerd.sock"}
}

// A server is a connection to a server, and what it says about itself.
type server struct {
	cri.RuntimeServiceClient
	images cri.ImageServiceClient
	store  *containerd.Client // loads images; nil if the server is not containerd
	conn   *grpc.ClientConn
	socket string

	version           *cri.VersionResponse
	config            configuration
	missingPauseImage atomic.Pointer[string] // the pause image that it could not fetch
	handlers          []string               // its runtimes; nil if it does not tell
	network           string                 // CNI plugin of a pod's network, such as "bridge"; empty if unknown or none
	portmap           bool                   // that network can publish ports on the host
	cgroups           string                 // "cgroupfs" or "systemd"
}

// status connects to the server and returns what it says about itself. It asks once.
func (e *Engine) status(ctx context.Context) (*server, error) {
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
		grpc.WithIdleTimeout(0), // so that no measured call has to reconnect
		grpc.WithConnectParams(grpc.ConnectParams{ // a restarted server is back soon
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
		return "", fmt.Errorf("%w: %s: no CRI server found: no socket at %s: install containerd or CRI-O and start "+
			"it, or name its socket",
			bench.ErrUnsupported, e.cfg.Name, strings.Join(endpoints(), ", "))
	}
	path := strings.TrimPrefix(e.cfg.Endpoint, "unix://")
	if !strings.HasPrefix(path, "/") {
		return "", fmt.Errorf("%s: endpoint %q: use the path of a socket, such as unix://%s", e.cfg.Name,
			e.cfg.Endpoint, endpoints()[0])
	}
	return path, nil
}

// reach distinguishes a missing server from one that does not answer. gRPC has one code for both.
func (e *Engine) reach(ctx context.Context, socket string) error {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", socket)
	if err == nil {
		return conn.Close()
	}
	return e.run.Unreachable(serverError(ctx, err), socket, "run tare with sudo",
		"start a CRI server there, for example with `systemctl start containerd` or `containerd`")
}

// describe asks the server for its version and set-up.
func (e *Engine) describe(ctx context.Context, s *server) error {
	var err error
	s.version, err = s.Version(ctx, &cri.VersionRequest{})
	if status.Code(err) == codes.Unimplemented {
		return fmt.Errorf("%w: %s: the server at %s does not offer CRI v1: remove \"cri\" from disabled_plugins in "+
			"containerd's config.toml, or use containerd 1.6, CRI-O 1.23 or newer",
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
			return e.failed(ctx, "status", fmt.Errorf("the server is not ready: %.300q", c.Message))
		}
	}
	s.parseStatus(answer)
	if s.version.RuntimeName == "containerd" {
		s.store, err = containerd.NewWithConn(s.conn)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", e.cfg.Name, err)
	}
	return e.describeCgroups(ctx, s)
}

// describeCgroups asks which driver makes control groups. Servers that are too old for that call
// tell it in their configuration.
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

// configuration is the part of a server's configuration that tare uses. CRI does not define its
// form.
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

// cniConfiguration is the part of containerd's CNI configuration that tare uses.
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

// parseStatus reads the server's configuration from its answer. Fields that are missing or have another
// form stay empty.
func (s *server) parseStatus(answer *cri.StatusResponse) {
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
