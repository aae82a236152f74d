package docker_test

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
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/docker"
	"github.com/tare-bench/tare/internal/image"
)

// open returns an engine at host, with the images of a stand-in agent.
func open(t *testing.T, host string) *docker.Engine {
	t.Helper()
	images := image.NewLibrary(t.TempDir(), image.WithAgent([]byte("not a program")))
	e := docker.New(docker.Config{Name: "docker", Run: "run-1", Dir: t.TempDir(), Images: images, Host: host})
	t.Cleanup(func() { _ = e.Close(context.Background()) }) // the fakes do not know the call
	return e
}

func TestProbeOfAnAbsentEngine(t *testing.T) {
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
	for name, host := range map[string]string{
		"no socket":       "unix://" + filepath.Join(dir, "none.sock"),
		"nobody listens":  "unix://" + dead,
		"refused by port": "tcp://127.0.0.1:1",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := open(t, host).Probe(t.Context())
			if !errors.Is(err, bench.ErrUnsupported) || !strings.Contains(fmt.Sprint(err), "systemctl start docker") {
				t.Errorf("Probe = %v, want bench.ErrUnsupported and how to start it", err)
			}
		})
	}
}

// No permission cannot be had by root, so the socket lies where a file is.
func TestProbeErrorsThatSayNothing(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, host := range map[string]string{"not a directory": "unix://" + file + "/docker.sock", "no host": "no-such-scheme"} {
		t.Run(name, func(t *testing.T) {
			if _, err := open(t, host).Probe(t.Context()); err == nil || errors.Is(err, bench.ErrUnsupported) {
				t.Errorf("Probe = %v, want an error that is not conclusive", err)
			}
		})
	}
}

// A fake is an engine that answers with what a test says. It answers the calls
// that begin every use, so that a test lists only what it is about.
type fake struct {
	answers map[string]http.HandlerFunc // by "METHOD /path", without the version

	mu    sync.Mutex
	calls []string
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := r.URL.Path
	if rest, ok := strings.CutPrefix(path, "/v1."); ok {
		_, path, _ = strings.Cut(rest, "/")
		path = "/" + path
	}
	call := r.Method + " " + path
	f.mu.Lock()
	f.calls = append(f.calls, call)
	f.mu.Unlock()
	if answer, ok := f.answers[call]; ok {
		answer(w, r)
		return
	}
	switch call {
	case "HEAD /_ping", "GET /_ping":
		w.Header().Set("Api-Version", "1.41")
	case "GET /info":
		reply(http.StatusOK, `{"Driver":"overlay2","CgroupDriver":"cgroupfs","CgroupVersion":"2","Runtimes":{"runc":{}}}`)(w, r)
	case "GET /images/own/json":
		reply(http.StatusOK, `{"Id":"sha256:00ff"}`)(w, r)
	default:
		reply(http.StatusNotFound, `{"message":"no such object"}`)(w, r)
	}
}

func (f *fake) called(call string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.calls {
		if strings.HasPrefix(c, call) {
			return true
		}
	}
	return false
}

func reply(status int, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // as an engine reads what it is sent
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text) // the test sees what is missing
	}
}

// serve starts a fake and returns its host.
func serve(t *testing.T, f *fake) string {
	t.Helper()
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	return "tcp://" + s.Listener.Addr().String()
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

func TestBadAnswers(t *testing.T) {
	spec := bench.Spec{Image: "own"}
	for name, test := range map[string]struct {
		call   string
		answer http.HandlerFunc
		want   string // part of the error
		do     func(ctx context.Context, e *docker.Engine) error
	}{
		"probe: error": {
			"GET /version", reply(500, `{"message":"disk on fire"}`), "disk on fire",
			func(ctx context.Context, e *docker.Engine) error { _, err := e.Probe(ctx); return err },
		},
		"probe: garbage": {
			"GET /version", reply(200, `{"Version":`), "docker: version",
			func(ctx context.Context, e *docker.Engine) error { _, err := e.Probe(ctx); return err },
		},
		"probe: another server": {
			"GET /info", reply(200, `<html>`), "docker: info",
			func(ctx context.Context, e *docker.Engine) error { _, err := e.Probe(ctx); return err },
		},
		"prepare: image missing": {
			"GET /images/own/json", reply(404, `{"message":"No such image: own"}`), "docker pull own",
			func(ctx context.Context, e *docker.Engine) error { return e.Prepare(ctx, spec) },
		},
		"prepare: load fails": {
			"POST /images/load", reply(200, `{"error":"no space left on device"}`), "no space left on device",
			func(ctx context.Context, e *docker.Engine) error { return e.Prepare(ctx, bench.Spec{}) },
		},
		"prepare: another image": {
			"POST /images/load", reply(200, `{"stream":"ok"}`), "no such object",
			func(ctx context.Context, e *docker.Engine) error { return e.Prepare(ctx, bench.Spec{}) },
		},
		"create: error": {
			"POST /containers/create", reply(409, `{"message":"name in use"}`), "name in use",
			func(ctx context.Context, e *docker.Engine) error { _, err := e.Create(ctx, spec); return err },
		},
		"create: garbage": {
			"POST /containers/create", reply(201, `[]`), "docker: create tare-run-1-docker-",
			func(ctx context.Context, e *docker.Engine) error { _, err := e.Create(ctx, spec); return err },
		},
		"leftovers: error": {
			"GET /containers/json", reply(500, `{"message":"store locked"}`), "list containers",
			func(ctx context.Context, e *docker.Engine) error {
				_, err := e.Leftovers(ctx, func(string) bool { return true })
				return err
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := &fake{answers: map[string]http.HandlerFunc{
				"GET /version": reply(200, `{"Version":"1","ApiVersion":"1.41"}`), test.call: test.answer,
			}}
			err := test.do(t.Context(), open(t, serve(t, f)))
			if err == nil || !strings.Contains(err.Error(), test.want) || errors.Is(err, bench.ErrUnsupported) {
				t.Errorf("error = %v, want one with %q that is not conclusive", err, test.want)
			}
		})
	}
}

// Whatever hangs, the context ends it.
func TestHangs(t *testing.T) {
	for name, test := range map[string]struct {
		call string
		do   func(ctx context.Context, e *docker.Engine, c bench.Container) error
	}{
		"probe": {"GET /version", func(ctx context.Context, e *docker.Engine, _ bench.Container) error {
			_, err := e.Probe(ctx)
			return err
		}},
		"create": {"POST /containers/create", func(ctx context.Context, e *docker.Engine, _ bench.Container) error {
			_, err := e.Create(ctx, bench.Spec{Image: "own"})
			return err
		}},
		"start": {"POST /containers/c1/start", func(ctx context.Context, _ *docker.Engine, c bench.Container) error { return c.Start(ctx) }},
		"wait": {"POST /containers/c1/wait", func(ctx context.Context, _ *docker.Engine, c bench.Container) error {
			_, err := c.Wait(ctx)
			return err
		}},
		"inspect": {"GET /containers/c1/json", func(ctx context.Context, _ *docker.Engine, c bench.Container) error {
			_, err := c.Inspect(ctx)
			return err
		}},
		"remove":  {"DELETE /containers/c1", func(ctx context.Context, _ *docker.Engine, c bench.Container) error { return c.Remove(ctx) }},
		"pause":   {"POST /containers/c1/pause", func(ctx context.Context, e *docker.Engine, c bench.Container) error { return e.Pause(ctx, c) }},
		"unpause": {"POST /containers/c1/unpause", func(ctx context.Context, e *docker.Engine, c bench.Container) error { return e.Resume(ctx, c) }},
		"kill": {"POST /containers/c1/kill", func(ctx context.Context, e *docker.Engine, c bench.Container) error {
			return e.Signal(ctx, c, syscall.SIGTERM)
		}},
		"stop": {"POST /containers/c1/stop", func(ctx context.Context, e *docker.Engine, c bench.Container) error { return e.Stop(ctx, c, time.Hour) }},
		"pid": {"GET /containers/c1/json", func(ctx context.Context, e *docker.Engine, c bench.Container) error {
			_, err := e.Pid(ctx, c)
			return err
		}},
		"exec: create":  {"POST /containers/c1/exec", execOf},
		"exec: start":   {"POST /exec/x1/start", execOf},
		"exec: inspect": {"GET /exec/x1/json", execOf},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &fake{answers: map[string]http.HandlerFunc{
				"POST /containers/create":  reply(201, `{"Id":"c1"}`),
				"POST /containers/c1/exec": reply(201, `{"Id":"x1"}`),
				"POST /exec/x1/start":      upgrade(nil),
			}}
			e := open(t, serve(t, f))
			c, err := e.Create(t.Context(), bench.Spec{Image: "own"})
			if err != nil {
				t.Fatal(err)
			}
			f.answers[test.call] = hang(t) // no call is under way
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer cancel()
			if err := test.do(ctx, e, c); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("error = %v, want context.DeadlineExceeded", err)
			}
		})
	}
}

func execOf(ctx context.Context, e *docker.Engine, c bench.Container) error {
	_, err := e.Exec(ctx, c, []string{"/x"}, nil, nil)
	return err
}

// What an exec's stream and its end are worth.
func TestExecAnswers(t *testing.T) {
	for name, test := range map[string]struct {
		stream, end string
		out, want   string // part of the error; none if empty
		code        int
	}{
		"fine":       {"\x01\x00\x00\x00\x00\x00\x00\x03out", `{"Running":false,"ExitCode":3}`, "out", "", 3},
		"cut":        {"\x01\x00\x00\x00\x00\x00\x00\x03ou", `{"Running":false,"ExitCode":0}`, "ou", "unexpected EOF", 0},
		"not framed": {"hello, world", `{"Running":false}`, "", "not Docker's framing", 0},
		"garbage":    {"", `{"Running":`, "", "docker: exec in c1", 0},
	} {
		t.Run(name, func(t *testing.T) {
			f := &fake{answers: map[string]http.HandlerFunc{
				"POST /containers/create":  reply(201, `{"Id":"c1"}`),
				"POST /containers/c1/exec": reply(201, `{"Id":"x1"}`),
				"POST /exec/x1/start":      upgrade([]byte(test.stream)),
				"GET /exec/x1/json":        reply(200, test.end),
			}}
			e := open(t, serve(t, f))
			c, err := e.Create(t.Context(), bench.Spec{Image: "own"})
			if err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			exit, err := e.Exec(t.Context(), c, []string{"/x"}, &out, nil)
			if exit.Code != test.code || out.String() != test.out || (err == nil) != (test.want == "") || !strings.Contains(fmt.Sprint(err), test.want) {
				t.Errorf("Exec = %v, %v and %q; want %d, %q and %q", exit, err, out.String(), test.code, test.want, test.out)
			}
		})
	}
}

// A container that the engine made after Create's context had ended is removed.
func TestCreateThatIsLate(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	f := &fake{}
	f.answers = map[string]http.HandlerFunc{"POST /containers/create": func(w http.ResponseWriter, r *http.Request) {
		cancel()
		reply(201, `{"Id":"late"}`)(w, r)
	}}
	_, err := open(t, serve(t, f)).Create(ctx, bench.Spec{Image: "own"})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Create = %v, want context.Canceled", err)
	}
	if !f.called("DELETE /containers/tare-run-1-docker-") {
		t.Errorf("the container was not removed; calls: %q", f.calls)
	}
}

// What is not this run's is not removed, whoever lists it.
func TestLeftoversOfOthers(t *testing.T) {
	f := &fake{answers: map[string]http.HandlerFunc{
		"GET /containers/json":    reply(200, `[{"Id":"c1","Labels":{"tare.run":"dead"}},{"Id":"c2","Labels":{"tare.run":"../x"}},{"Id":"c3","Labels":{"tare.run":"alive"}}]`),
		"GET /images/json":        reply(200, `[{"Id":"i","RepoTags":["tare.local/dead/docker/agent:latest","tare.local:latest","debian:12"]}]`),
		"GET /containers/c1/json": reply(200, `{"Id":"c1","Config":{"Labels":{"tare.run":"another"}}}`),
	}}
	e := open(t, serve(t, f))
	left, err := e.Leftovers(t.Context(), func(run string) bool { return run != "alive" })
	if err != nil || len(left) != 2 || left[0].ID != "c1" || left[1].ID != "tare.local/dead/docker/agent:latest" {
		t.Fatalf("Leftovers = %v, %v; want c1 and the image", left, err)
	}
	if err := e.RemoveLeftover(t.Context(), left[0]); err == nil {
		t.Error("a container that another run has is removed")
	}
	left[1].ID = "debian:12"
	if err := e.RemoveLeftover(t.Context(), left[1]); err == nil {
		t.Error("an image that is not tare's is removed")
	}
	if f.called("DELETE") {
		t.Errorf("calls: %q", f.calls)
	}
}

// What came is passed on, and what is missing is an error.
func TestOutput(t *testing.T) {
	frames := []byte("\x01\x00\x00\x00\x00\x00\x00\x03out\x02\x00\x00\x00\x00\x00\x00\x03err")
	for name, test := range map[string]struct {
		stream []byte
		stdout string
		stderr string
		ok     bool
	}{
		"two streams":  {frames, "out", "err", true},
		"none":         {nil, "", "", true},
		"cut in text":  {frames[:len(frames)-1], "out", "er", false},
		"cut in frame": {frames[:len(frames)-5], "out", "", false},
		"not framed":   {[]byte("HELLO, WORLD"), "", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			f := &fake{answers: map[string]http.HandlerFunc{
				"POST /containers/create":    reply(201, `{"Id":"c1"}`),
				"POST /containers/c1/attach": upgrade(test.stream),
				"POST /containers/c1/wait":   reply(200, `{"StatusCode":0}`),
			}}
			c, err := open(t, serve(t, f)).Create(t.Context(), bench.Spec{Image: "own"})
			if err != nil {
				t.Fatal(err)
			}
			var stdout, stderr bytes.Buffer
			if err := c.Attach(t.Context(), &stdout, &stderr); err != nil {
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

// An image that the engine has is neither sent again nor deleted at the end.
func TestImageThatIsThere(t *testing.T) {
	images := image.NewLibrary(t.TempDir(), image.WithAgent([]byte("not a program")))
	img, err := images.Resolve(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	const name = "tare.local/run-1/docker/agent:latest"
	for tags, want := range map[string]struct{ name, untagged string }{
		`[]`:               {img.Digest(), ""},
		`["mine:1"]`:       {name, "DELETE /images/" + name},
		`["` + name + `"]`: {name, "DELETE /images/" + name},
	} {
		var asked struct{ Image string }
		f := &fake{answers: map[string]http.HandlerFunc{
			"GET /images/" + img.Digest() + "/json": reply(200, `{"Id":"`+img.Digest()+`","RepoTags":`+tags+`}`),
			"POST /images/" + img.Digest() + "/tag": reply(201, ``),
			"POST /containers/create": func(w http.ResponseWriter, r *http.Request) {
				if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
					t.Error(err)
				}
				reply(201, `{"Id":"c1"}`)(w, r)
			},
		}}
		e := docker.New(docker.Config{Name: "docker", Run: "run-1", Images: images, Host: serve(t, f)})
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

// A tag can be another image by the time that a container is made of it.
func TestAnotherImage(t *testing.T) {
	f := &fake{answers: map[string]http.HandlerFunc{
		"POST /containers/create": reply(201, `{"Id":"c1"}`),
		"GET /containers/c1/json": reply(200, `{"Id":"c1","Image":"sha256:0bad","State":{},"HostConfig":{}}`),
	}}
	c, err := open(t, serve(t, f)).Create(t.Context(), bench.Spec{Image: "own"})
	if err != nil {
		t.Fatal(err)
	}
	if a, err := c.Inspect(t.Context()); !errors.Is(err, bench.ErrMismatch) {
		t.Errorf("Inspect = %+v, %v; want bench.ErrMismatch", a, err)
	}
}

// upgrade hijacks the connection, sends the bytes and closes it.
func upgrade(stream []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		// What is not read when a connection is closed makes the kernel reset it.
		_, _ = io.Copy(io.Discard, r.Body)
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return // the client reports it
		}
		defer func() { _ = conn.Close() }() // the client has what was sent
		_, _ = fmt.Fprintf(conn, "HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n%s", stream)
	}
}

// The engine is asked for exactly what the Spec says.
func TestTranslation(t *testing.T) {
	var asked map[string]any
	f := &fake{answers: map[string]http.HandlerFunc{"POST /containers/create": func(w http.ResponseWriter, r *http.Request) {
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
			t.Error(err)
		}
		reply(201, `{"Id":"c1"}`)(w, r)
	}}}
	spec := bench.Spec{
		Image: "own", Argv: []string{"/bin/x", "a"}, Network: "bridge",
		Ports:    []bench.Port{{Container: 80, Protocol: "tcp"}},
		Limits:   bench.Limits{CPUs: 0.5, CPUSet: "1", Memory: 1 << 20, Pids: 7},
		Security: bench.Security{Seccomp: "unconfined", NoNewPrivileges: true, ReadOnly: true},
		Mounts:   []bench.Mount{{Type: "tmpfs", Target: "/t", Size: 4096}},
	}
	if _, err := open(t, serve(t, f)).Create(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	host, _ := asked["HostConfig"].(map[string]any)
	for key, want := range map[string]string{
		"NetworkMode": "bridge", "NanoCpus": "5e+08", "CpusetCpus": "1", "Memory": "1.048576e+06", "MemorySwap": "-1",
		"PidsLimit": "7", "ReadonlyRootfs": "true", "SecurityOpt": "[seccomp=unconfined no-new-privileges]",
		"PortBindings": "map[80/tcp:[map[HostIp:127.0.0.1 HostPort:]]]",
		"Mounts":       "[map[Target:/t TmpfsOptions:map[SizeBytes:4096] Type:tmpfs]]",
	} {
		if got := fmt.Sprint(host[key]); got != want {
			t.Errorf("HostConfig.%s = %s, want %s", key, got, want)
		}
	}
	if got := fmt.Sprint(asked["Entrypoint"], asked["Cmd"], asked["Labels"]); got != "[/bin/x] [a] map[tare.run:run-1]" {
		t.Errorf("Entrypoint, Cmd, Labels = %s", got)
	}
}
