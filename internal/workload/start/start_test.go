package start_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/tare-bench/tare/internal/agent"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/containerd"
	"github.com/tare-bench/tare/internal/engine/docker"
	"github.com/tare-bench/tare/internal/engine/enginetest"
	"github.com/tare-bench/tare/internal/engine/floor"
	"github.com/tare-bench/tare/internal/engine/native"
	"github.com/tare-bench/tare/internal/engine/podman"
	"github.com/tare-bench/tare/internal/image"
	"github.com/tare-bench/tare/internal/image/imagetest"
	"github.com/tare-bench/tare/internal/workload/start"
	"github.com/tare-bench/tare/internal/workload/workloadtest"
)

func workload(t *testing.T) bench.Workload {
	t.Helper()
	binary := imagetest.Agent(t)
	return start.New(func(dir string) *image.Library { return image.NewLibrary(dir, image.WithAgent(binary)) })
}

// use opens an engine that is to be tested here.
func use(t *testing.T, name string) bench.Engine {
	t.Helper()
	s := enginetest.NewEnv(t, imagetest.Library(t))
	e := map[string]bench.Engine{
		"native":     native.New(native.Config{Name: "native", Run: s.Run, Dir: s.Dir, Images: s.Images}),
		"floor":      floor.New(floor.Config{Name: "floor", Run: s.Run, Dir: s.Dir, Images: s.Images}),
		"docker":     docker.New(docker.Config{Name: "docker", Run: s.Run, Dir: s.Dir, Images: s.Images}),
		"podman":     podman.New(podman.Config{Name: "podman", Run: s.Run, Dir: s.Dir, Images: s.Images}),
		"containerd": containerd.New(containerd.Config{Name: "containerd", Run: s.Run, Dir: s.Dir, Images: s.Images}),
	}[name]
	enginetest.Use(t, e)
	return e
}

func run(t *testing.T, e bench.Engine, spec bench.Spec, given map[string]string) (bench.Sample, map[string]float64) {
	t.Helper()
	w := workload(t)
	s := workloadtest.Trials{Workload: w, Engine: e, Spec: spec, Params: given}.Run(t)[0]
	return s, workloadtest.Values(w, s)
}

// Tare's own service is ready in every way, with and without a daemon; other
// engines are seen by a port and by a health check.
func TestReady(t *testing.T) {
	ways := []map[string]string{
		{}, {"ready": "http"}, {"ready": "log", "text": "^listening on port [0-9]+$"}, {"ready": "health"},
	}
	for _, name := range []string{"native", "floor", "docker", "podman", "containerd"} {
		t.Run(name, func(t *testing.T) {
			e := use(t, name)
			for i, given := range ways {
				if between := i == 1 || i == 2; between && name != "native" && name != "docker" {
					continue
				}
				s, v := run(t, e, bench.Spec{}, given)
				if s.Outcome != bench.OK || v[start.Ready] <= 0 || v[start.Ready] < v[start.Created] {
					t.Errorf("%v: %s: %s; %v", given, s.Outcome, s.Reason, v)
				}
				_, port := v[start.Port]
				if connects := given["ready"] == "" || given["ready"] == "http"; port != connects ||
					v[start.Port] > v[start.Ready] {
					t.Errorf("%v: %v", given, v)
				}
				if s.Outcome == bench.OK && (s.Applied == nil || s.Applied.Image == "") {
					t.Errorf("%v: applied %+v", given, s.Applied)
				}
			}
		})
	}
}

// A published port is accepted by a program before the service, which is not it.
func TestPublished(t *testing.T) {
	const delay = 300 * time.Millisecond
	spec := bench.Spec{
		Network: "bridge", Reach: bench.ReachPublished, Argv: []string{agent.Path, "serve", "80", delay.String()},
	}
	s, v := run(t, use(t, "docker"), spec, map[string]string{"port": "80"})
	if s.Outcome != bench.OK || v[start.Ready] < delay.Seconds() {
		t.Errorf("%s: %s; %v; want at least %v", s.Outcome, s.Reason, v, delay)
	}
}

// A service that takes its time is not ready before.
func TestDelay(t *testing.T) {
	const delay = 100 * time.Millisecond
	e := use(t, "native")
	port := freePort(t)
	spec := bench.Spec{Argv: []string{agent.Path, "serve", port, delay.String()}}
	for _, way := range []map[string]string{
		{"ready": "port"}, {"ready": "http"}, {"ready": "log", "text": "listening"}, {"ready": "health", "command": agent.Path + ",probe," + port},
	} {
		way["port"] = port
		if s, v := run(t, e, spec, way); s.Outcome != bench.OK || v[start.Ready] < delay.Seconds() {
			t.Errorf("%v: %s: %s; %v; want at least %v", way, s.Outcome, s.Reason, v, delay)
		}
	}
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp4", ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }() // nothing was said
	return fmt.Sprint(l.Addr().(*net.TCPAddr).Port)
}

// What never gets ready is a failure that says why.
func TestNeverReady(t *testing.T) {
	e := use(t, "native")
	port, taken := freePort(t), listenOnPort(t, func(c net.Conn) { _ = c.Close() })
	serve := bench.Spec{Argv: []string{agent.Path, "serve", port}}
	hold := bench.Spec{Argv: []string{agent.Path, "hold"}}
	const soon = "1s"
	for name, test := range map[string]struct {
		spec  bench.Spec
		given map[string]string
		says  []string
	}{
		"nobody listens": {
			hold,
			map[string]string{"port": port, "timeout": soon},
			[]string{"not ready in time (1s)", "refused: if it listens on another port, set option port"},
		},
		"no such page": {
			serve,
			map[string]string{"port": port, "ready": "http", "path": "/other", "timeout": soon},
			[]string{"not ready in time", "HTTP status 404 for /other: choose another path with option path"},
		},
		"no such line": {
			serve,
			map[string]string{"ready": "log", "text": "^never$", "timeout": soon},
			[]string{"not ready in time", "no line of its output matches", "never"},
		},
		"never well": {
			hold,
			map[string]string{"ready": "health", "command": agent.Path + ",exit,3", "timeout": soon},
			[]string{"not ready in time", "exit status 3"},
		},
		"ends": {bench.Spec{Argv: []string{agent.Path, "exit", "7"}}, map[string]string{"port": port}, []string{"exit status 7"}},
		"ends, and says": {
			bench.Spec{Argv: []string{agent.Path, "cat", "/no/such/file"}},
			map[string]string{"ready": "log", "text": "x"},
			[]string{"exit status 1", "no such file"},
		},
		"port taken": {serve, map[string]string{"port": taken}, []string{"port " + taken + " of this host is in use"}},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := run(t, e, test.spec, test.given)
			if s.Outcome != bench.Failed {
				t.Errorf("%s, want failed", s.Outcome)
			}
			for _, says := range test.says {
				if !strings.Contains(s.Reason, says) {
					t.Errorf("%s; want %q in it", s.Reason, says)
				}
			}
		})
	}
}

// listenOnPort listens on a port and does something with who comes.
func listenOnPort(t *testing.T, use func(net.Conn)) (port string) {
	t.Helper()
	l, err := net.Listen("tcp4", ":0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() }) // nothing is pending
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			use(c)
		}
	}()
	return fmt.Sprint(l.Addr().(*net.TCPAddr).Port)
}

// misaddressedEngine is an engine whose containers are said to be at another port.
type misaddressedEngine struct {
	bench.Engine
	port string
}

func (e misaddressedEngine) Unwrap() bench.Engine { return e.Engine }

func (e misaddressedEngine) Address(context.Context, bench.Container, bench.Port) (netip.AddrPort, error) {
	return netip.ParseAddrPort("127.0.0.1:" + e.port)
}

func (e misaddressedEngine) Path(context.Context, bench.Container, bench.Port) ([]string, error) {
	return nil, nil
}

// Servers that answer badly: none of it is ready, and none of it takes longer than
// the time that there is.
func TestBadServers(t *testing.T) {
	hold := bench.Spec{Argv: []string{agent.Path, "hold"}}
	inner := use(t, "native")
	for name, use := range map[string]func(net.Conn){
		"closes":   func(c net.Conn) { _ = c.Close() },
		"silent":   func(net.Conn) {},
		"garbage":  func(c net.Conn) { _, _ = c.Write([]byte("\x00\x01 hello\r\n\r\n")); _ = c.Close() },
		"endless":  func(c net.Conn) { go endless(c) },
		"no reply": func(c net.Conn) { _, _ = c.Write([]byte("HTTP/1.1 ")); _ = c.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			e := misaddressedEngine{inner, listenOnPort(t, use)}
			given := map[string]string{"port": freePort(t), "ready": "http", "timeout": "300ms"}
			s, _ := run(t, e, hold, given)
			if s.Outcome != bench.Failed || !strings.Contains(s.Reason, "not ready in time") {
				t.Errorf("%s: %s", s.Outcome, s.Reason)
			}
		})
	}
}

func endless(c net.Conn) {
	_, _ = c.Write([]byte("HTTP/1.1 200 OK\r\n"))
	for {
		if _, err := c.Write([]byte(strings.Repeat("X: y\r\n", 1000))); err != nil {
			return
		}
	}
}

// bareEngine is an engine without capabilities.
type bareEngine struct{ bench.Engine }

func TestCheck(t *testing.T) {
	w, e := workload(t), bareEngine{use(t, "native")}
	for name, test := range map[string]struct {
		engine bench.Engine
		spec   bench.Spec
		given  []string
		says   string
	}{
		"no addresses": {e, bench.Spec{}, nil, "does not tell the addresses"},
		"no exec":      {e, bench.Spec{}, []string{"ready", "health"}, "cannot run another program"},
		"no network":   {e.Engine, bench.Spec{Network: "none"}, nil, "use network host or bridge"},
		"a peer":       {e.Engine, bench.Spec{Network: "bridge", Reach: bench.ReachPeer}, nil, "use network bridge or published"},
		"no text":      {e.Engine, bench.Spec{}, []string{"ready", "log"}, "option text"},
	} {
		err := w.Check(t.Context(), workloadtest.Task(w, test.engine, test.spec, test.given...))
		if !errors.Is(err, bench.ErrUnsupported) || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v, want %q", name, err, test.says)
		}
	}
	if err := w.Check(t.Context(),
		workloadtest.Task(w, e, bench.Spec{Network: "none"}, "ready", "log", "text", "x")); err != nil {
		t.Errorf("a line needs neither network nor capability: %v", err)
	}
}

// What neither the image nor the experiment says cannot be guessed.
func TestWhatIsNotKnown(t *testing.T) {
	e := use(t, "native")
	argv := bench.Spec{Argv: []string{agent.Path, "hold"}}
	for says, given := range map[string]map[string]string{"option port": nil, "option command": {"ready": "health"}} {
		if s, _ := run(t, e, argv, given); s.Outcome != bench.Skipped && s.Outcome != bench.Unsupported ||
			!strings.Contains(s.Reason, says) {
			t.Errorf("%v: %s: %s, want %q", given, s.Outcome, s.Reason, says)
		}
	}
	w := workload(t)
	task := workloadtest.Task(w, e, argv)
	task.Dir = t.TempDir()
	if f, err := w.(bench.Fixturer).Setup(t.Context(), task); f != nil || !errors.Is(err, bench.ErrUnsupported) {
		t.Errorf("%v, and %v is to be removed", err, f)
	}
}
