package supervise_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/tare-bench/tare/internal/agent"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/docker"
	"github.com/tare-bench/tare/internal/engine/enginetest"
	"github.com/tare-bench/tare/internal/engine/floor"
	"github.com/tare-bench/tare/internal/engine/native"
	"github.com/tare-bench/tare/internal/engine/oci"
	"github.com/tare-bench/tare/internal/image/imagetest"
	"github.com/tare-bench/tare/internal/kernel/netpath"
	"github.com/tare-bench/tare/internal/supervise"
	"github.com/tare-bench/tare/internal/workload/workloadtest"
)

// A launched program has the same in every cell: data, user, limits; and it is the one that was
// asked for.
func TestLaunch(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can become another user")
	}
	s := enginetest.NewEnv(t, imagetest.Library(t))
	program, err := s.Images.WriteAgent(s.Dir)
	if err != nil {
		t.Fatal(err)
	}
	template := filepath.Join(s.Dir, "template")
	err = errors.Join(os.Mkdir(template, 0o755), os.WriteFile(filepath.Join(template, "file"), []byte("text\n"), 0o644))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range []bench.Engine{
		native.New(native.Config{Name: "native", Run: s.Run, Dir: s.Dir, Images: s.Images}),
		floor.New(floor.Config{Name: "floor", Run: s.Run, Dir: s.Dir, Images: s.Images}),
		oci.New(oci.Config{Name: "runc", Run: s.Run, Dir: s.Dir, Images: s.Images}),
		docker.New(docker.Config{Name: "docker", Run: s.Run, Dir: s.Dir, Images: s.Images}),
	} {
		t.Run(e.Name(), func(t *testing.T) {
			enginetest.Use(t, e)
			l := supervise.Launch{
				Launch: agent.Launch{
					Template: template, Target: bench.DataDir + "/db", User: "54321:54321", Files: 99, OOM: "0", Wait: true,
				},
				Agent: program, Program: []string{program, "hold"},
			}
			launches(t, e, l)
		})
	}
}

func launches(t *testing.T, e bench.Engine, l supervise.Launch) {
	t.Helper()
	ctx, m := t.Context(), workloadtest.NewMeter(t)
	spec := l.Spec(e, bench.Spec{Storage: "bind"})
	if err := e.Prepare(ctx, spec); err != nil {
		t.Fatal(err)
	}
	p, err := supervise.Start(ctx, e, spec, m, "server")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Cleanup(p.Remove) })
	done, err := p.Prepared(ctx)
	if err != nil || done.Bytes != 5 || done.Copies != 1 || done.UID != 54321 || done.Files != 99 {
		t.Errorf("Prepared = %+v, %v", done, err)
	}
	at, err := p.Execute(ctx, m)
	if err != nil || at < done.Synced {
		t.Errorf("Execute = %v, %v", at, err)
	}
	if _, err := p.AwaitLines(ctx, 3); err != nil {
		t.Fatalf("the program does not run: %v", err)
	}
	digest, err := supervise.FileDigest(l.Program[0])
	if err := errors.Join(err, p.AttestProgram(ctx, digest)); err != nil {
		t.Error(err)
	}
	if err := p.AttestProgram(ctx, "sha256:0"); !errors.Is(err, bench.ErrMismatch) {
		t.Errorf("AttestProgram of another program = %v, want bench.ErrMismatch", err)
	}
	got := p.Applied(ctx, m)
	if err := bench.Attest(spec, got); err != nil {
		t.Error(err)
	}
	if want := (bench.ProcessFacts{UID: 54321, Files: 99, OOM: done.OOM}); got.Process == nil || *got.Process != want {
		t.Errorf("Applied: process %+v, want %+v", got.Process, want)
	}
	if len(got.DataMounts) == 0 || got.Shm == 0 {
		t.Errorf("Applied: data on %q, /dev/shm of %d bytes", got.DataMounts, got.Shm)
	}
}

// A step that fails is in the error of whoever waits for the launcher.
func TestLaunchFails(t *testing.T) {
	s := enginetest.NewEnv(t, imagetest.Library(t))
	program, err := s.Images.WriteAgent(s.Dir)
	if err != nil {
		t.Fatal(err)
	}
	e := native.New(native.Config{Name: "native", Run: s.Run, Dir: s.Dir, Images: s.Images})
	enginetest.Use(t, e)
	l := supervise.Launch{
		Launch: agent.Launch{Template: s.Dir + "/none", Target: bench.DataDir + "/db"},
		Agent:  program, Program: []string{program, "hold"},
	}
	m := workloadtest.NewMeter(t)
	p, err := supervise.Start(t.Context(), e, l.Spec(e, bench.Spec{Storage: "bind"}), m, "server")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Cleanup(p.Remove) })
	_, err = p.Prepared(t.Context())
	want := "server: the process inside ended with exit status 1; it printed \"tare-agent: launch: copy " + s.Dir + "/none"
	if err == nil || len(fmt.Sprint(err)) < len(want) || err.Error()[:len(want)] != want {
		t.Errorf("Prepared: %v; want %s…", err, want)
	}
}

// A server in a container without a network is reached by its socket, and nothing else is taken for it.
func TestSocket(t *testing.T) {
	for name, e := range engines(t) {
		t.Run(name, func(t *testing.T) {
			_, err := e.Probe(t.Context())
			enginetest.Require(t, name, err)
			dir, err := supervise.NewSocketDir(shortDir(t), "socket")
			if err != nil {
				t.Fatal(err)
			}
			socket := filepath.Join(dir.Path, "socket")
			spec := bench.Spec{
				Argv: []string{agent.Path, "serve", socket}, Reach: bench.ReachSocket, Mounts: dir.Mounts(e),
			}
			m := workloadtest.NewMeter(t)
			if err := e.Prepare(t.Context(), spec); err != nil {
				t.Fatal(err)
			}
			p, err := supervise.Start(t.Context(), e, spec, m, "server")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { m.Cleanup(p.Remove) })
			if _, err := p.AwaitLines(t.Context(), 1); err != nil {
				t.Fatal(err)
			}
			if err := p.ReadSocketPath(t.Context(), m, socket); err != nil {
				t.Error(err)
			}
			if got := p.Applied(t.Context(), m); len(got.Path) != 1 || got.Path[0] != netpath.Socket {
				t.Errorf("Applied: path %q, want %q", got.Path, netpath.Socket)
			}
			other, _ := start(t, e, bench.Limits{}, "hold")
			if err := other.ReadSocketPath(t.Context(), m, socket); !errors.Is(err, bench.ErrMismatch) {
				t.Errorf("the socket of another container: %v, want bench.ErrMismatch", err)
			}
		})
	}
}

// shortDir is a directory with a short path, removed after the test.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "t")
	if err == nil {
		err = os.Chmod(dir, 0o711)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// The directory of a socket is open to every user, can be emptied, and is refused where its path is too
// long.
func TestSocketDir(t *testing.T) {
	base := shortDir(t)
	d, err := supervise.NewSocketDir(base, ".s.SERVER.5432")
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(d.Path)
	if err != nil || info.Mode() != os.ModeDir|os.ModeSticky|0o777 {
		t.Errorf("%s: %v, %v", d.Path, info.Mode(), err)
	}
	file := filepath.Join(d.Path, "left")
	if err := errors.Join(os.WriteFile(file, nil, 0o600), d.Clear(), d.Clear()); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("left after Clear: %v", err)
	}
	long := filepath.Join(base, "long-long-long-long-long-long-long-long-long-long-long-long-long-long")
	if err := errors.Join(d.Remove(), os.Mkdir(long, 0o711)); err != nil {
		t.Fatal(err)
	}
	_, err = supervise.NewSocketDir(long, ".s.SERVER.5432-and-a-name-that-is-longer-than-others")
	if !errors.Is(err, bench.ErrUnsupported) {
		t.Errorf("a long path: %v, want bench.ErrUnsupported", err)
	}
	if left, err := os.ReadDir(long); err != nil || len(left) > 0 {
		t.Errorf("left of what was refused: %v, %v", left, err)
	}
}
