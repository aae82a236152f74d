package compose

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/tare-bench/tare/internal/agent"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/supervise"
)

// A project is what the trials of one cell bring up and take down.
type project struct {
	engine    bench.Engine
	projecter bench.Projecter
	adopter   bench.Composable
	name      string
	services  []service // in the order in which they depend on each other
	spec      bench.Spec
	program   *program // nil for the bare loop
	timeout   time.Duration
	volumes   []string             // without a name, of the containers of this trial: see bench.Member
	dir       string               // of the generated file; empty if there is none
	sockets   *supervise.SocketDir // of generated services; nil with a file of the user
}

// A service is one of a project.
type service struct {
	name string
	spec bench.Spec // of a generated one
}

// newProject prepares everything. After an error, what was made is in the project.
func newProject(ctx context.Context, t bench.Task) (*project, error) {
	p := &project{engine: t.Engine, name: bench.ProjectName(t.Run, nonce())}
	p.projecter, _ = bench.As[bench.Projecter](t.Engine) // Check made sure of both
	p.adopter, _ = bench.As[bench.Composable](t.Engine)
	p.spec = bench.Spec{Network: "bridge", Runtime: t.Spec.Runtime}
	var err error
	if p.timeout, err = time.ParseDuration(t.Params["timeout"]); err != nil {
		return p, err
	}
	if err := t.Engine.Prepare(ctx, p.spec); err != nil {
		return p, err
	}
	how, err := p.adopter.Composing(ctx, p.spec)
	if err != nil {
		return p, err
	}
	if t.Params["tool"] != bare {
		if p.program, err = findProgram(ctx, t, how); err != nil {
			return p, err
		}
	}
	if file := t.Params["file"]; file != "" {
		return p, p.read(ctx, file)
	}
	return p, p.generate(t, how)
}

func nonce() string {
	var b [3]byte
	_, _ = rand.Read(b[:]) // never fails, since Go 1.24
	return hex.EncodeToString(b[:])
}

// generate makes the services, and a file of them for a compose program.
func (p *project) generate(t bench.Task, how bench.Composing) error {
	n, err := strconv.Atoi(t.Params["services"])
	if err != nil {
		return err
	}
	sockets, err := supervise.NewSocketDir(t.Dir, serviceName(maxServices))
	if err != nil {
		return err
	}
	p.sockets = &sockets
	p.spec.Mounts = sockets.Mounts(p.engine)
	for i := range n {
		s := service{name: serviceName(i + 1), spec: p.spec}
		s.spec.Argv = []string{agent.Path, "serve", p.socket(s)}
		s.spec.Member = &bench.Membership{Project: p.name, Service: s.name}
		p.services = append(p.services, s)
	}
	if p.program == nil {
		return nil
	}
	if p.spec.Runtime != "" && p.program.name == podmanCompose {
		return fmt.Errorf("%w: runtime %s: podman-compose uses Podman's default: leave runtime out", bench.ErrUnsupported,
			p.spec.Runtime)
	}
	text, err := generated(p.services, how)
	if err != nil {
		return err
	}
	if p.dir, err = os.MkdirTemp(t.Dir, "compose"); err != nil {
		return err
	}
	p.program.use(p.name, filepath.Join(p.dir, "compose.yaml"))
	return os.WriteFile(p.program.file, text, 0o600)
}

func serviceName(i int) string { return "s" + strconv.Itoa(i) }

// socket is where a generated service listens, in its container and on the host.
func (p *project) socket(s service) string { return filepath.Join(p.sockets.Path, s.name) }

// Reset implements bench.Fixture.
func (p *project) Reset(ctx context.Context) error {
	if p.sockets != nil {
		if err := p.sockets.Clear(); err != nil {
			return err
		}
	}
	return p.engine.Prepare(ctx, p.spec)
}

// Remove implements bench.Fixture. Each trial has removed what it made.
func (p *project) Remove(context.Context) (err error) {
	if p.sockets != nil {
		err = p.sockets.Remove()
	}
	if p.dir != "" {
		err = errors.Join(err, os.RemoveAll(p.dir))
	}
	return err
}
