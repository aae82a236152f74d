package podman_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/enginetest"
	"github.com/tare-bench/tare/internal/engine/podman"
	"github.com/tare-bench/tare/internal/image"
)

// open returns an engine at a socket, with the images of a stand-in agent.
func open(t *testing.T, socket string) *podman.Engine {
	t.Helper()
	images := image.NewLibrary(t.TempDir(), image.WithAgent([]byte("not a program")))
	e := podman.New(podman.Config{Name: "podman", Run: "run-1", Dir: t.TempDir(), Images: images, Host: "unix://" + socket})
	t.Cleanup(func() { _ = e.Close(context.Background()) }) // the fakes do not know the call
	return e
}

// A fake is a service that answers with what a test says. It answers the calls
// that begin every use, so that a test lists only what it is about.
type fake struct {
	mu      sync.Mutex
	answers map[string]http.HandlerFunc // by "METHOD /path", without the version
	calls   []string
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	call := r.Method + " " + strings.TrimPrefix(r.URL.Path, "/v4.0.0/libpod")
	f.mu.Lock()
	f.calls = append(f.calls, call)
	answer := f.answers[call]
	f.mu.Unlock()
	if answer == nil {
		answer = usual(call)
	}
	answer(w, r)
}

// usual is what is answered where a test says nothing.
func usual(call string) http.HandlerFunc {
	switch call {
	case "GET /info":
		return reply(200, `{"host":{"cgroupControllers":["cpu","cpuset","memory","pids"],"cgroupVersion":"v2","cgroupManager":"systemd",
			"ociRuntime":{"name":"crun"}},"store":{"graphDriverName":"overlay"},"version":{"Version":"5.4.2"}}`)
	case "GET /images/own/json":
		return reply(200, `{"Id":"00ff"}`)
	case "POST /containers/create":
		return reply(201, `{"Id":"c1"}`)
	}
	return reply(404, `{"cause":"no such object","message":"no such object","response":404}`)
}

func (f *fake) set(call string, answer http.HandlerFunc) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answers[call] = answer
}

func (f *fake) called(call string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.ContainsFunc(f.calls, func(c string) bool { return strings.HasPrefix(c, call) })
}

func reply(status int, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // as a service reads what it is sent
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text) // the test sees what is missing
	}
}

// serve starts a fake and returns its socket.
func serve(t *testing.T, f *fake) string {
	t.Helper()
	if f.answers == nil {
		f.answers = map[string]http.HandlerFunc{}
	}
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	s := &httptest.Server{Listener: l, Config: &http.Server{Handler: f, ReadHeaderTimeout: time.Minute}}
	s.Start()
	t.Cleanup(s.Close)
	return socket
}

// hang answers nothing until the client gives up or the test ends.
func hang(t *testing.T) http.HandlerFunc {
	ctx := t.Context()
	return func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // only then is the client's leaving noticed
		select {
		case <-r.Context().Done():
		case <-ctx.Done():
		}
	}
}

// endless answers with more and more of the same.
func endless(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // as a service reads what it is sent
		for {
			if _, err := io.WriteString(w, text); err != nil {
				return // the client has had enough
			}
		}
	}
}

// A named service that is not there is a conclusive answer, with what to do.
func TestProbeOfAnAbsentService(t *testing.T) {
	dir := t.TempDir()
	dead := filepath.Join(dir, "dead.sock")
	l, err := net.Listen("unix", dead)
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	for name, socket := range map[string]string{"no socket": filepath.Join(dir, "none.sock"), "nobody listens": dead} {
		t.Run(name, func(t *testing.T) {
			_, err := open(t, socket).Probe(t.Context())
			if !errors.Is(err, bench.ErrUnsupported) || !strings.Contains(fmt.Sprint(err), "podman system service") {
				t.Errorf("Probe = %v, want bench.ErrUnsupported and how to start it", err)
			}
			if err := open(t, socket).Prepare(t.Context(), bench.Spec{}); !errors.Is(err, bench.ErrUnsupported) {
				t.Errorf("Prepare = %v, want bench.ErrUnsupported, and no service of our own", err)
			}
		})
	}
}

func TestProbeWithoutPodman(t *testing.T) {
	if _, err := os.Stat("/run/podman/podman.sock"); err == nil {
		t.Skip("a service answers at the usual socket")
	}
	t.Setenv("PATH", t.TempDir())
	t.Setenv("CONTAINER_HOST", "")
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	e := podman.New(podman.Config{Name: "podman", Run: "run-1", Dir: t.TempDir()})
	if _, err := e.Probe(t.Context()); !errors.Is(err, bench.ErrUnsupported) || !strings.Contains(err.Error(), "install podman") {
		t.Errorf("Probe = %v, want bench.ErrUnsupported and what to install", err)
	}
}

func TestHosts(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for host, unsupported := range map[string]bool{
		"tcp://127.0.0.1:1":          true,
		"ssh://user@host/run/x.sock": true,
		"unix://relative.sock":       true,
		// No permission cannot be had by root, so the socket lies where a file is.
		"unix://" + file + "/podman.sock": false,
	} {
		_, err := podman.New(podman.Config{Name: "podman", Run: "run-1", Host: host}).Probe(t.Context())
		if err == nil || errors.Is(err, bench.ErrUnsupported) != unsupported {
			t.Errorf("Probe with host %s = %v, want an error, conclusive: %v", host, err, unsupported)
		}
	}
}

// A socket of another user is no bug, and not for good either: it says so.
func TestForbiddenSocket(t *testing.T) {
	if os.Geteuid() == 0 {
		enginetest.AsOrdinaryUser(t, "TestForbiddenSocket") // root may use every socket
		return
	}
	socket := serve(t, &fake{})
	if err := os.Chmod(socket, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := open(t, socket).Probe(t.Context()); !errors.Is(err, bench.ErrUnsupported) || !strings.Contains(err.Error(), "no permission") {
		t.Errorf("Probe = %v, want bench.ErrUnsupported and the reason", err)
	}
}

func TestBadAnswers(t *testing.T) {
	probe := func(ctx context.Context, e *podman.Engine) error { _, err := e.Probe(ctx); return err }
	prepare := func(image string) func(context.Context, *podman.Engine) error {
		return func(ctx context.Context, e *podman.Engine) error { return e.Prepare(ctx, bench.Spec{Image: image}) }
	}
	create := func(ctx context.Context, e *podman.Engine) error {
		_, err := e.Create(ctx, bench.Spec{Image: "own"})
		return err
	}
	leftovers := func(ctx context.Context, e *podman.Engine) error {
		_, err := e.Leftovers(ctx, func(string) bool { return true })
		return err
	}
	for name, test := range map[string]struct {
		call   string
		answer http.HandlerFunc
		want   string // part of the error
		do     func(ctx context.Context, e *podman.Engine) error
	}{
		"probe: error":          {"GET /info", reply(500, `{"cause":"x","message":"disk on fire","response":500}`), "disk on fire", probe},
		"probe: error no JSON":  {"GET /info", reply(502, `<html>`), "502", probe},
		"probe: garbage":        {"GET /info", reply(200, `{"host":`), "podman: info", probe},
		"probe: another server": {"GET /info", reply(200, `<html>`), "podman: info", probe},
		"probe: another kind":   {"GET /info", reply(200, `{"host":7}`), "podman: info", probe},
		"probe: endless":        {"GET /info", endless(strings.Repeat(" ", 1<<16)), "podman: info", probe},
		"probe: endless string": {"GET /info", func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, `"`)
			endless(strings.Repeat("x", 1<<16))(w, r)
		}, "podman: info", probe},
		"probe: endless error":   {"GET /info", func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(500); endless(`{"message":`)(w, r) }, "500", probe},
		"prepare: image missing": {"GET /images/own/json", reply(404, `{"message":"own: image not known"}`), "podman pull own", prepare("own")},
		"prepare: load fails":    {"POST /images/load", reply(500, `{"message":"no space left on device"}`), "no space left on device", prepare("")},
		"prepare: another image": {"POST /images/load", reply(200, `{"Names":["x"]}`), "no such object", prepare("")},
		"create: error":          {"POST /containers/create", reply(500, `{"message":"name in use"}`), "name in use", create},
		"create: garbage":        {"POST /containers/create", reply(201, `[]`), "podman: create tare-run-1-podman-", create},
		"create: no ID":          {"POST /containers/create", reply(201, `{}`), "no ID", create},
		"leftovers: error":       {"GET /containers/json", reply(500, `{"message":"store locked"}`), "list containers", leftovers},
	} {
		t.Run(name, func(t *testing.T) {
			f := &fake{answers: map[string]http.HandlerFunc{test.call: test.answer}}
			err := test.do(t.Context(), open(t, serve(t, f)))
			if err == nil || !strings.Contains(err.Error(), test.want) || errors.Is(err, bench.ErrUnsupported) || len(err.Error()) > 1000 {
				t.Errorf("error = %.2000v, want a short one with %q that is not conclusive", err, test.want)
			}
		})
	}
}

// Whatever hangs, the context ends it.
func TestHangs(t *testing.T) {
	for name, test := range map[string]struct {
		call string
		do   func(ctx context.Context, e *podman.Engine, c bench.Container) error
	}{
		"probe": {"GET /info", func(ctx context.Context, e *podman.Engine, _ bench.Container) error {
			_, err := e.Probe(ctx)
			return err
		}},
		"create": {"POST /containers/create", func(ctx context.Context, e *podman.Engine, _ bench.Container) error {
			_, err := e.Create(ctx, bench.Spec{Image: "own"})
			return err
		}},
		"attach": {"POST /containers/c1/attach", func(ctx context.Context, _ *podman.Engine, c bench.Container) error {
			return errors.Join(c.Attach(ctx, io.Discard, nil), c.Start(ctx))
		}},
		"start": {"POST /containers/c1/start", func(ctx context.Context, _ *podman.Engine, c bench.Container) error { return c.Start(ctx) }},
		"wait": {"POST /containers/c1/wait", func(ctx context.Context, _ *podman.Engine, c bench.Container) error {
			_, err := c.Wait(ctx)
			return err
		}},
		"inspect": {"GET /containers/c1/json", func(ctx context.Context, _ *podman.Engine, c bench.Container) error {
			_, err := c.Inspect(ctx)
			return err
		}},
		"exec": {"POST /containers/c1/exec", func(ctx context.Context, e *podman.Engine, c bench.Container) error {
			_, err := e.Exec(ctx, c, []string{"x"}, nil, nil)
			return err
		}},
		"stop":   {"POST /containers/c1/stop", func(ctx context.Context, e *podman.Engine, c bench.Container) error { return e.Stop(ctx, c, time.Hour) }},
		"remove": {"DELETE /containers/c1", func(ctx context.Context, _ *podman.Engine, c bench.Container) error { return c.Remove(ctx) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &fake{}
			e := open(t, serve(t, f))
			c, err := e.Create(t.Context(), bench.Spec{Image: "own"})
			if err != nil {
				t.Fatal(err)
			}
			f.set(test.call, hang(t))
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer cancel()
			if err := test.do(ctx, e, c); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("error = %v, want context.DeadlineExceeded", err)
			}
		})
	}
}

// A container that was made after Create's context had ended is removed.
func TestCreateThatIsLate(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	f := &fake{answers: map[string]http.HandlerFunc{"POST /containers/create": func(w http.ResponseWriter, r *http.Request) {
		cancel()
		reply(201, `{"Id":"late"}`)(w, r)
	}}}
	_, err := open(t, serve(t, f)).Create(ctx, bench.Spec{Image: "own"})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Create = %v, want context.Canceled", err)
	}
	if !f.called("DELETE /containers/tare-run-1-podman-") {
		t.Errorf("the container was not removed; calls: %q", f.calls)
	}
}

// What is not this run's is not removed, whoever lists it.
func TestLeftoversOfOthers(t *testing.T) {
	f := &fake{answers: map[string]http.HandlerFunc{
		"GET /containers/json":    reply(200, `[{"Id":"c1","Labels":{"tare.run":"dead"}},{"Id":"c2","Labels":{"tare.run":"../x"}},{"Id":"c3","Labels":{"tare.run":"alive"}}]`),
		"GET /images/json":        reply(200, `[{"Id":"i","RepoTags":["tare.local/dead/podman/agent:latest","tare.local:latest","debian:12"]}]`),
		"GET /containers/c1/json": reply(200, `{"Id":"c1","HostConfig":{},"Config":{"Labels":{"tare.run":"another"}}}`),
	}}
	e := open(t, serve(t, f))
	left, err := e.Leftovers(t.Context(), func(run string) bool { return run == "dead" || run == "../x" })
	if err != nil || len(left) != 2 || left[0].ID != "c1" || left[1].ID != "tare.local/dead/podman/agent:latest" {
		t.Fatalf("Leftovers = %v, %v; want c1 and the image", left, err)
	}
	this := fmt.Sprintf("%d@1", os.Getpid())
	for _, l := range []bench.Leftover{
		left[0],
		{Run: "dead", Engine: "podman", Kind: "image", ID: "debian:12"},
		{Run: "dead", Engine: "podman", Kind: "directory", ID: t.TempDir()},
		{Run: "dead", Engine: "podman", Kind: "directory", ID: filepath.Join(t.TempDir(), "tare-dead-podman-1")},
		{Run: "dead", Engine: "podman", Kind: "process", ID: "0@1"},
		{Run: "dead", Engine: "another", Kind: "process", ID: this},
	} {
		if err := e.RemoveLeftover(t.Context(), l); err == nil {
			t.Errorf("RemoveLeftover(%+v) succeeds", l)
		}
	}
	// This very process is not the run's service, and so there is none.
	if err := e.RemoveLeftover(t.Context(), bench.Leftover{Run: "dead", Engine: "podman", Kind: "process", ID: this}); err != nil {
		t.Error(err)
	}
	if f.called("DELETE") {
		t.Errorf("calls: %q", f.calls)
	}
}

// upgrade hijacks the connection, sends the bytes and closes it.
func upgrade(stream []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // as a service reads what it is sent
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return // the client reports it
		}
		defer func() { _ = conn.Close() }() // the client has what was sent
		_, _ = fmt.Fprintf(conn, "HTTP/1.1 101 UPGRADED\r\nContent-Type: application/vnd.docker.raw-stream\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n%s", stream)
	}
}

// What came is passed on, and what is missing is an error.
func TestOutput(t *testing.T) {
	frames := []byte("\x01\x00\x00\x00\x00\x00\x00\x03out\x02\x00\x00\x00\x00\x00\x00\x03err")
	for name, test := range map[string]struct {
		stream         []byte
		stdout, stderr string
		ok             bool
	}{
		"two streams":  {frames, "out", "err", true},
		"none":         {nil, "", "", true},
		"cut in text":  {frames[:len(frames)-1], "out", "er", false},
		"cut in frame": {frames[:len(frames)-5], "out", "", false},
		"not framed":   {[]byte("HELLO, WORLD"), "", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			f := &fake{answers: map[string]http.HandlerFunc{
				"POST /containers/c1/attach": upgrade(test.stream),
				"POST /containers/c1/start":  reply(204, ""),
				"POST /containers/c1/wait":   reply(200, "0\n"),
			}}
			c, err := open(t, serve(t, f)).Create(t.Context(), bench.Spec{Image: "own"})
			if err != nil {
				t.Fatal(err)
			}
			var stdout, stderr bytes.Buffer
			if err := errors.Join(c.Attach(t.Context(), &stdout, &stderr), c.Start(t.Context())); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if exit, err := c.Wait(t.Context()); (err == nil) != test.ok || exit != (bench.Exit{}) {
					t.Errorf("Wait = %v, %v; want success %v", exit, err, test.ok)
				}
			}
			if stdout.String() != test.stdout || stderr.String() != test.stderr {
				t.Errorf("stdout %q, stderr %q; want %q and %q", stdout.String(), stderr.String(), test.stdout, test.stderr)
			}
		})
	}
}

// A container whose output never ends is still a container whose Exec ends.
func TestExecThatIsStuck(t *testing.T) {
	f := &fake{answers: map[string]http.HandlerFunc{
		"POST /containers/c1/exec": reply(201, `{"Id":"s1"}`),
		"POST /exec/s1/start": func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				return // the client reports it
			}
			defer func() { _ = conn.Close() }() // nobody is there any more
			_, _ = io.WriteString(conn, "HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n")
			_, _ = io.Copy(io.Discard, conn) // until the client goes
		},
	}}
	e := open(t, serve(t, f))
	c, err := e.Create(t.Context(), bench.Spec{Image: "own"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := e.Exec(ctx, c, []string{"x"}, nil, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Exec = %v, want context.DeadlineExceeded", err)
	}
}

// An image that Podman has is neither sent again nor deleted at the end.
func TestImageThatIsThere(t *testing.T) {
	images := image.NewLibrary(t.TempDir(), image.WithAgent([]byte("not a program")))
	img, err := images.Resolve(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	id := strings.TrimPrefix(img.Digest(), "sha256:")
	const name = "tare.local/run-1/podman/agent:latest"
	for tags, want := range map[string]struct{ name, untagged string }{
		`[]`:               {id, ""},
		`["mine:1"]`:       {name, "DELETE /images/" + name},
		`["` + name + `"]`: {name, "DELETE /images/" + name},
	} {
		var asked struct{ Image string }
		f := &fake{answers: map[string]http.HandlerFunc{
			"GET /images/" + id + "/json": reply(200, `{"Id":"`+id+`","RepoTags":`+tags+`}`),
			"POST /images/" + id + "/tag": reply(201, ``),
			"POST /containers/create": func(w http.ResponseWriter, r *http.Request) {
				if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
					t.Error(err)
				}
				reply(201, `{"Id":"c1"}`)(w, r)
			},
		}}
		e := podman.New(podman.Config{Name: "podman", Run: "run-1", Images: images, Host: "unix://" + serve(t, f)})
		if _, err := e.Create(t.Context(), bench.Spec{}); err != nil {
			t.Fatal(err)
		}
		if err := e.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if asked.Image != want.name || f.called("POST /images/load") || f.called("DELETE") != (want.untagged != "") || !f.called(want.untagged) {
			t.Errorf("tags %s: container of %s, calls %q; want %+v and nothing loaded", tags, asked.Image, f.calls, want)
		}
	}
}

// A name can be another image by the time that a container is made of it.
func TestAnotherImage(t *testing.T) {
	f := &fake{answers: map[string]http.HandlerFunc{
		"GET /containers/c1/json": reply(200, `{"Id":"c1","Image":"0bad","State":{},"HostConfig":{}}`),
	}}
	c, err := open(t, serve(t, f)).Create(t.Context(), bench.Spec{Image: "own"})
	if err != nil {
		t.Fatal(err)
	}
	if a, err := c.Inspect(t.Context()); !errors.Is(err, bench.ErrMismatch) {
		t.Errorf("Inspect = %+v, %v; want bench.ErrMismatch", a, err)
	}
}

// What a service cannot do, it is not asked for.
func TestRefusals(t *testing.T) {
	for name, test := range map[string]struct {
		info string
		spec bench.Spec
	}{
		"limit without a control group": {`{"host":{"cgroupControllers":["cpu"]}}`, bench.Spec{Limits: bench.Limits{Memory: 1 << 20}}},
		"user namespace of root":        {`{}`, bench.Spec{Security: bench.Security{UserNS: true}}},
		"another runtime":               {`{"host":{"ociRuntime":{"name":"crun"}}}`, bench.Spec{Runtime: "runc"}},
		"another store":                 {`{"store":{"graphDriverName":"vfs"}}`, bench.Spec{Snapshotter: "overlay"}},
	} {
		f := &fake{answers: map[string]http.HandlerFunc{"GET /info": reply(200, test.info)}}
		test.spec.Image = "own"
		if _, err := open(t, serve(t, f)).Create(t.Context(), test.spec); !errors.Is(err, bench.ErrUnsupported) {
			t.Errorf("%s: Create = %v, want bench.ErrUnsupported", name, err)
		}
		if f.called("POST /containers") {
			t.Errorf("%s: calls %q", name, f.calls)
		}
	}
}

// Podman is asked for exactly what the Spec says.
func TestTranslation(t *testing.T) {
	var asked map[string]any
	f := &fake{answers: map[string]http.HandlerFunc{"POST /containers/create": func(w http.ResponseWriter, r *http.Request) {
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
			t.Error(err)
		}
		reply(201, `{"Id":"c1"}`)(w, r)
	}}}
	spec := bench.Spec{
		Image: "own", Argv: []string{"/bin/x", "a"}, Env: []string{"K=v=w"}, Dir: "/d", Network: "bridge", Runtime: "crun",
		Ports:    []bench.Port{{Container: 80, Protocol: "tcp"}},
		Limits:   bench.Limits{CPUs: 0.5, CPUSet: "1", Memory: 1 << 20, Pids: 7},
		Security: bench.Security{Seccomp: "unconfined", NoNewPrivileges: true, ReadOnly: true},
		Mounts:   []bench.Mount{{Type: "tmpfs", Target: "/t", Size: 4096}, {Type: "bind", Source: "/s", Target: "/b", ReadOnly: true}},
	}
	if _, err := open(t, serve(t, f)).Create(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{
		"image": "own", "entrypoint": "[/bin/x]", "command": "[a]", "env": "map[K:v=w]", "work_dir": "/d",
		"labels": "map[tare.run:run-1]", "netns": "map[nsmode:bridge]",
		"portmappings":         "[map[container_port:80 host_ip:127.0.0.1 protocol:tcp]]",
		"resource_limits":      "map[cpu:map[cpus:1 period:100000 quota:50000] memory:map[limit:1.048576e+06 swap:4.611686018427388e+18] pids:map[limit:7]]",
		"seccomp_profile_path": "unconfined", "annotations": "map[io.podman.annotations.seccomp:unconfined]",
		"no_new_privileges": "true", "read_only_filesystem": "true", "privileged": "<nil>",
		"mounts": "[map[destination:/t options:[size=4096] source:tmpfs type:tmpfs] map[destination:/b options:[rbind ro] source:/s type:bind]]",
	} {
		if got := fmt.Sprint(asked[key]); got != want {
			t.Errorf("%s = %s, want %s", key, got, want)
		}
	}
}

// The operations are one call each.
func TestOperations(t *testing.T) {
	f := &fake{answers: map[string]http.HandlerFunc{}}
	var queries []string
	note := func(w http.ResponseWriter, r *http.Request) {
		queries = append(queries, r.URL.RawQuery)
		reply(200, `{}`)(w, r)
	}
	for _, call := range []string{"pause", "unpause", "kill", "stop", "checkpoint", "restore"} {
		f.answers["POST /containers/c1/"+call] = note
	}
	e := open(t, serve(t, f))
	c, err := e.Create(t.Context(), bench.Spec{Image: "own"})
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	err = errors.Join(e.Pause(ctx, c), e.Resume(ctx, c), e.Signal(ctx, c, 15), e.Stop(ctx, c, 3*time.Second), e.Checkpoint(ctx, c), e.Restore(ctx, c))
	if want := []string{"", "", "signal=15", "timeout=3", "", ""}; err != nil || !slices.Equal(queries, want) {
		t.Errorf("%v; queries %q, want %q", err, queries, want)
	}
	if err := e.Restart(ctx); !errors.Is(err, bench.ErrUnsupported) {
		t.Errorf("Restart of somebody else's service = %v, want bench.ErrUnsupported", err)
	}
}
