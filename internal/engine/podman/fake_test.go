package podman_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/apitest"
	"github.com/tare-bench/tare/internal/engine/enginetest"
	"github.com/tare-bench/tare/internal/engine/podman"
)

// at returns an engine at a socket, with the images of a stand-in agent.
func at(t *testing.T, socket string) *podman.Engine {
	t.Helper()
	e := podman.New(podman.Config{
		Name: "podman", Run: "run-1", Dir: t.TempDir(), Images: apitest.FakeLibrary(t), Host: "unix://" + socket,
	})
	t.Cleanup(func() { _ = e.Close(context.Background()) }) // the fakes do not know the call
	return e
}

// open returns an engine on a service that answers the calls that begin every
// use, so that a test lists only what it is about.
func open(t *testing.T, answers apitest.Answers) (*podman.Engine, *apitest.Server) {
	t.Helper()
	s := apitest.Serve(t, "/v4.0.0/libpod", apitest.Answers{
		"GET /info": apitest.Reply(200, `{"host":{"cgroupControllers":["cpu","cpuset","memory","pids"],"cgroupVersion":"v2","cgroupManager":"systemd",
			"ociRuntime":{"name":"crun"}},"store":{"graphDriverName":"overlay"},"version":{"Version":"5.4.2"}}`),
		"GET /images/own/json":    apitest.Reply(200, `{"Id":"00ff"}`),
		"POST /containers/create": apitest.Reply(201, `{"Id":"c1"}`),
	}, answers)
	return at(t, s.Socket), s
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
	for name, socket := range map[string]string{
		"no socket": filepath.Join(t.TempDir(), "none.sock"), "nobody listens": apitest.DeadSocket(t),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := at(t, socket).Probe(t.Context())
			if !errors.Is(err, bench.ErrUnsupported) || !strings.Contains(fmt.Sprint(err), "podman system service") {
				t.Errorf("Probe = %v, want bench.ErrUnsupported and how to start it", err)
			}
			if err := at(t, socket).Prepare(t.Context(), bench.Spec{}); !errors.Is(err, bench.ErrUnsupported) {
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
	if _, err := e.Probe(t.Context()); !errors.Is(err, bench.ErrUnsupported) ||
		!strings.Contains(err.Error(), "install podman") {
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
	e, s := open(t, nil)
	if err := os.Chmod(s.Socket, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Probe(t.Context()); !errors.Is(err, bench.ErrUnsupported) ||
		!strings.Contains(err.Error(), "no permission") {
		t.Errorf("Probe = %v, want bench.ErrUnsupported and the reason", err)
	}
}

func TestBadAnswers(t *testing.T) {
	endlessString := func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, `"`)
		endless(strings.Repeat("x", 1<<16))(w, r)
	}
	endlessError := func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(500); endless(`{"message":`)(w, r) }
	apitest.BadAnswers(t, open, map[string]apitest.BadAnswer{
		"probe: error": {
			Call: "GET /info", Answer: apitest.Reply(500, `{"cause":"x","message":"disk on fire","response":500}`),
			Want: "disk on fire", Do: apitest.Probe,
		},
		"probe: error no JSON":  {Call: "GET /info", Answer: apitest.Reply(502, `<html>`), Want: "502", Do: apitest.Probe},
		"probe: garbage":        {Call: "GET /info", Answer: apitest.Reply(200, `{"host":`), Want: "podman: info", Do: apitest.Probe},
		"probe: another server": {Call: "GET /info", Answer: apitest.Reply(200, `<html>`), Want: "podman: info", Do: apitest.Probe},
		"probe: another kind":   {Call: "GET /info", Answer: apitest.Reply(200, `{"host":7}`), Want: "podman: info", Do: apitest.Probe},
		"probe: endless":        {Call: "GET /info", Answer: endless(strings.Repeat(" ", 1<<16)), Want: "podman: info", Do: apitest.Probe},
		"probe: endless string": {Call: "GET /info", Answer: endlessString, Want: "podman: info", Do: apitest.Probe},
		"probe: endless error":  {Call: "GET /info", Answer: endlessError, Want: "500", Do: apitest.Probe},
		"prepare: image missing": {
			Call: "GET /images/own/json", Answer: apitest.Reply(404, `{"message":"own: image not known"}`),
			Want: "podman pull own", Do: apitest.Prepare("own"),
		},
		"prepare: load fails": {
			Call: "POST /images/load", Answer: apitest.Reply(500, `{"message":"no space left on device"}`),
			Want: "no space left on device", Do: apitest.Prepare(""),
		},
		"prepare: another image": {Call: "POST /images/load", Answer: apitest.Reply(200, `{"Names":["x"]}`), Want: "no such object", Do: apitest.Prepare("")},
		"pull: refused": {
			Call: "POST /images/pull", Answer: apitest.Reply(500, `{"message":"connection refused"}`),
			Want: "connection refused", Do: apitest.Pull,
		},
		"pull: fails": {
			Call: "POST /images/pull", Answer: apitest.Reply(200, `{"stream":"Trying"}{"error":"no space left on device"}`),
			Want: "no space left on device", Do: apitest.Pull,
		},
		"pull: garbage": {
			Call: "POST /images/pull", Answer: apitest.Reply(200, `{"stream":`),
			Want: "podman: pull 127.0.0.1:1/tare-run-1/podman:1", Do: apitest.Pull,
		},
		"pull: nothing":    {Call: "POST /images/pull", Answer: apitest.Reply(200, `{"stream":"Trying"}`), Want: "ends without an image", Do: apitest.Pull},
		"create: error":    {Call: "POST /containers/create", Answer: apitest.Reply(500, `{"message":"name in use"}`), Want: "name in use", Do: apitest.Create},
		"create: garbage":  {Call: "POST /containers/create", Answer: apitest.Reply(201, `[]`), Want: "podman: create tare-run-1-podman-", Do: apitest.Create},
		"create: no ID":    {Call: "POST /containers/create", Answer: apitest.Reply(201, `{}`), Want: "no ID", Do: apitest.Create},
		"leftovers: error": {Call: "GET /containers/json", Answer: apitest.Reply(500, `{"message":"store locked"}`), Want: "list containers", Do: apitest.Leftovers},
	})
}

func TestHangs(t *testing.T) {
	apitest.Hangs(t, open, map[string]apitest.ContainerCall{
		"pull":  {Call: "POST /images/pull", Do: func(ctx context.Context, e apitest.Engine, _ bench.Container) error { return apitest.Pull(ctx, e) }},
		"probe": {Call: "GET /info", Do: func(ctx context.Context, e apitest.Engine, _ bench.Container) error { return apitest.Probe(ctx, e) }},
		"attach": {
			Call: "POST /containers/c1/attach", Do: func(ctx context.Context, _ apitest.Engine, c bench.Container) error {
				return errors.Join(c.Attach(ctx, io.Discard, nil), c.Start(ctx))
			},
		},
	})
}

func TestCreateThatIsLate(t *testing.T) { apitest.LateCreate(t, open) }

// What is not this run's is not removed, whoever lists it.
func TestLeftoversOfOthers(t *testing.T) {
	e, s := open(t, apitest.Answers{
		"GET /containers/json": apitest.Reply(200,
			`[{"Id":"c1","Labels":{"tare.run":"dead"}},{"Id":"c2","Labels":{"tare.run":"../x"}},`+
				`{"Id":"c3","Labels":{"tare.run":"alive"}},`+
				`{"Id":"c4","Labels":{"com.docker.compose.project":"tare-dead-0f"}},`+
				`{"Id":"c5","Labels":{"com.docker.compose.project":"shop"}},`+
				`{"Id":"c6","Labels":{"com.docker.compose.project":"tare-alive-0f"}}]`),
		"GET /images/json": apitest.Reply(200,
			`[{"Id":"i","RepoTags":["tare.local/dead/podman/agent:latest","tare.local:latest","debian:12"]}]`),
		"GET /networks/json": apitest.Reply(200,
			`[{"name":"n1","labels":{"tare.run":"dead"}},{"name":"n2","labels":{"tare.run":"alive"}},{"name":"n3"}]`),
		"GET /containers/c1/json": apitest.Reply(200,
			`{"Id":"c1","HostConfig":{},"Config":{"Labels":{"tare.run":"another"}}}`),
		"GET /containers/c4/json": apitest.Reply(200,
			`{"Id":"c4","HostConfig":{},"Config":{"Labels":{"com.docker.compose.project":"shop"}}}`),
		"GET /networks/n1/json": apitest.Reply(200, `{"name":"n1","labels":{"tare.run":"another"}}`),
		"GET /volumes/json": apitest.Reply(200,
			`[{"Name":"v1","Labels":{"com.docker.compose.project":"tare-dead-0f"}},{"Name":"v2"}]`),
		"GET /volumes/v1/json": apitest.Reply(200, `{"Name":"v1","Labels":{"com.docker.compose.project":"tare-alive-0f"}}`),
		"GET /pods/json": apitest.Reply(200,
			`[{"Name":"pod_tare-dead-0f"},{"Name":"pod_tare-alive-0f"},{"Name":"pod_shop"},{"Name":"tare-dead-0f"}]`),
	})
	left, err := e.Leftovers(t.Context(), func(run string) bool { return run == "dead" || run == "../x" })
	var ids []string
	for _, l := range left {
		ids = append(ids, l.ID)
	}
	want := []string{"c1", "c4", "n1", "v1", "tare.local/dead/podman/agent:latest", "pod_tare-dead-0f"}
	if err != nil || !slices.Equal(ids, want) {
		t.Fatalf("Leftovers = %v, %v; want %q", left, err, want)
	}
	this := fmt.Sprintf("%d@1", os.Getpid())
	for _, l := range []bench.Leftover{
		left[0], left[1], left[2], left[3],
		{Run: "dead", Engine: "podman", Kind: "image", ID: "debian:12"},
		{Run: "dead", Engine: "podman", Kind: "pod", ID: "pod_tare-alive-0f"},
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
	if err := e.RemoveLeftover(t.Context(),
		bench.Leftover{Run: "dead", Engine: "podman", Kind: "process", ID: this}); err != nil {
		t.Error(err)
	}
	if s.HasCall("DELETE") {
		t.Errorf("calls: %q", s.Calls())
	}
}

// What only Podman's storage knows belongs to the run whose image it uses, unless it is another one's build, or the
// image is another one's too. It goes before the image.
func TestLeftoversOfStorage(t *testing.T) {
	root, broken, build, shared := t.TempDir(), strings.Repeat("a", 64), strings.Repeat("b", 64), strings.Repeat("c", 64)
	state := filepath.Join(root, "overlay-containers", build, "userdata")
	if err := errors.Join(os.MkdirAll(state, 0o700),
		os.WriteFile(filepath.Join(state, "buildah.json"), []byte(`{"Args":{"X":"y"}}`), 0o600)); err != nil {
		t.Fatal(err)
	}
	e, _ := open(t, apitest.Answers{
		"GET /info": apitest.Reply(200, `{"host":{"cgroupControllers":["memory"],"cgroupVersion":"v2","ociRuntime":{"name":"crun"}},
			"store":{"graphDriverName":"overlay","graphRoot":"`+root+`"},"version":{"Version":"5.4.2"}}`),
		"GET /containers/json": apitest.Reply(200, `[{"Id":"`+broken+`","ImageID":"own","State":"storage"},`+
			`{"Id":"`+build+`","ImageID":"own","State":"storage"},{"Id":"`+shared+`","ImageID":"shared","State":"storage"}]`),
		"GET /images/json": apitest.Reply(200, `[{"Id":"own","RepoTags":["tare.local/dead/podman/agent:latest"]},`+
			`{"Id":"shared","RepoTags":["tare.local/dead/podman/other:latest","debian:12"]}]`),
		"GET /networks/json": apitest.Reply(200, `[]`),
		"GET /volumes/json":  apitest.Reply(200, `[]`),
		"GET /pods/json":     apitest.Reply(200, `[]`),
	})
	left, err := e.Leftovers(t.Context(), func(run string) bool { return run == "dead" })
	var ids []string
	for _, l := range left {
		ids = append(ids, l.ID)
	}
	want := []string{broken, "tare.local/dead/podman/agent:latest", "tare.local/dead/podman/other:latest"}
	if err != nil || !slices.Equal(ids, want) {
		t.Errorf("Leftovers = %v, %v; want %q", left, err, want)
	}
}

// Podman lists no containers of its storage while the image of one is gone. If a dead run has left that, it goes first;
// otherwise it is not touched.
func TestContainerWithoutImage(t *testing.T) {
	id, gone, another := strings.Repeat("a", 64), strings.Repeat("b", 64), strings.Repeat("c", 64)
	for name, test := range map[string]struct {
		image, named string
		found        bool
	}{
		"of the run":            {gone, "tare.local/dead/podman/agent:latest", true},
		"of another run":        {gone, "tare.local/alive/podman/agent:latest", false},
		"of somebody else":      {gone, "debian:12", false},
		"which another one has": {another, "tare.local/dead/podman/agent:latest", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // it waits
			root := t.TempDir()
			stored, err := json.Marshal([]map[string]any{{
				"id": id, "names": []string{"x"}, "image": test.image, "metadata": `{"image-name":"` + test.named + `"}`,
			}})
			dir := filepath.Join(root, "overlay-containers")
			if err := errors.Join(err, os.MkdirAll(dir, 0o700),
				os.WriteFile(filepath.Join(dir, "containers.json"), stored, 0o600)); err != nil {
				t.Fatal(err)
			}
			var removed atomic.Bool
			e, s := open(t, apitest.Answers{
				"GET /info": apitest.Reply(200, `{"host":{"cgroupControllers":["memory"],"cgroupVersion":"v2","ociRuntime":{"name":"crun"}},
					"store":{"graphDriverName":"overlay","graphRoot":"`+root+`"},"version":{"Version":"4.3.1"}}`),
				"GET /images/json": apitest.Reply(200, `[]`), "GET /networks/json": apitest.Reply(200, `[]`),
				"GET /volumes/json": apitest.Reply(200, `[]`), "GET /pods/json": apitest.Reply(200, `[]`),
				"GET /containers/json": func(w http.ResponseWriter, r *http.Request) {
					if removed.Load() || !r.URL.Query().Has("external") {
						apitest.Reply(200, `[]`)(w, r)
						return
					}
					apitest.Reply(500, `{"message":"`+gone+`: image not known"}`)(w, r)
				},
				"DELETE /containers/" + id: func(w http.ResponseWriter, r *http.Request) {
					removed.Store(true)
					apitest.Reply(200, `[]`)(w, r)
				},
			})
			left, err := e.Leftovers(t.Context(), func(run string) bool { return run == "dead" })
			if found := len(left) == 1 && left[0].ID == id; found != test.found {
				t.Errorf("Leftovers = %v, %v", left, err)
			}
			if !test.found {
				return
			}
			if err := errors.Join(err, e.RemoveLeftover(t.Context(), left[0])); err != nil || !s.HasCall("DELETE") {
				t.Errorf("removed: %v, %v", s.HasCall("DELETE"), err)
			}
		})
	}
}

// Podman lists no images while there is one that it has stored only in part. If a build of tare's has left that, it goes
// first; otherwise it is not touched.
func TestHalfImage(t *testing.T) {
	own, theirs := strings.Repeat("a", 64), strings.Repeat("b", 64)
	for name, test := range map[string]struct {
		half, label string
		found       bool
	}{
		"of a build":       {own, "tare-build/dead/n/1", true},
		"of another run":   {own, "tare-build/alive/n/1", false},
		"of somebody else": {theirs, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // it waits
			root := t.TempDir()
			dir := filepath.Join(root, "overlay-images", test.half)
			file := filepath.Join(dir, "="+base64.StdEncoding.EncodeToString([]byte("sha256:"+test.half)))
			config := `{"config":{"Labels":{"tare.build":"` + test.label + `"}}}`
			if err := errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(file, []byte(config), 0o600)); err != nil {
				t.Fatal(err)
			}
			var gone atomic.Bool
			e, s := open(t, apitest.Answers{
				"GET /info": apitest.Reply(200, `{"host":{"cgroupControllers":["memory"],"cgroupVersion":"v2","ociRuntime":{"name":"crun"}},
					"store":{"graphDriverName":"overlay","graphRoot":"`+root+`"},"version":{"Version":"4.3.1"}}`),
				"GET /containers/json": apitest.Reply(200, `[]`), "GET /networks/json": apitest.Reply(200, `[]`),
				"GET /volumes/json": apitest.Reply(200, `[]`), "GET /pods/json": apitest.Reply(200, `[]`),
				"GET /images/json": func(w http.ResponseWriter, r *http.Request) {
					if gone.Load() {
						apitest.Reply(200, `[]`)(w, r)
						return
					}
					apitest.Reply(500, `{"message":"checking if image \"c\" is dangling: locating item named \"manifest\" for image `+
						`with ID \"`+test.half+`\" (consider removing the image to resolve the issue): file does not exist"}`)(w, r)
				},
				"DELETE /images/" + test.half: func(w http.ResponseWriter, r *http.Request) {
					gone.Store(true)
					apitest.Reply(200, `{}`)(w, r)
				},
			})
			left, err := e.Leftovers(t.Context(), func(run string) bool { return run == "dead" })
			if err == nil || !strings.Contains(err.Error(), "list images") {
				t.Errorf("Leftovers = %v, want an error that images cannot be listed", err)
			}
			if found := len(left) == 1 && left[0].ID == test.half; found != test.found {
				t.Errorf("Leftovers = %v", left)
			}
			err = e.RemoveLeftover(t.Context(), bench.Leftover{Run: "dead", Engine: "podman", Kind: "image", ID: test.half})
			if removed := s.HasCall("DELETE"); removed != test.found || (err == nil) != test.found {
				t.Errorf("removed: %v, %v", removed, err)
			}
		})
	}
}

func TestOutputThatOnlyTheLogHas(t *testing.T) {
	apitest.OutputOfLog(t, open, "overlay-containers/c1/userdata/ctr.log", func(root string) apitest.Answers {
		return apitest.Answers{
			"GET /info": apitest.Reply(200, `{"host":{"cgroupControllers":["memory"],"cgroupVersion":"v2","ociRuntime":{"name":"crun"}},
				"store":{"graphDriverName":"overlay","graphRoot":"`+root+`"},"version":{"Version":"5.4.2"}}`),
			"POST /containers/c1/wait": apitest.Reply(200, "0\n"),
		}
	})
}

func TestOutput(t *testing.T) { apitest.Output(t, open, apitest.Reply(200, "0\n")) }

// A container whose output never ends is still a container whose Exec ends.
func TestExecThatIsStuck(t *testing.T) {
	e, _ := open(t, apitest.Answers{
		"POST /containers/c1/exec": apitest.Reply(201, `{"Id":"s1"}`),
		"POST /exec/s1/start":      apitest.EndlessStream(),
	})
	c := apitest.Created(t, e)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := e.Exec(ctx, c, []string{"x"}, nil, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Exec = %v, want context.DeadlineExceeded", err)
	}
}

func TestForeignID(t *testing.T) {
	apitest.ForeignID(t, open, `{"Id":"other","Image":"00ff","State":{},"HostConfig":{"NetworkMode":"none"},
		"Config":{"Labels":{"tare.run":%q}}}`)
}

func TestImageThatIsThere(t *testing.T) {
	apitest.PresentImage(t, open, "podman", func(digest string) string { return strings.TrimPrefix(digest, "sha256:") })
}

// A name can be another image by the time that a container is made of it.
func TestAnotherImage(t *testing.T) {
	e, _ := open(t, apitest.Answers{
		"GET /containers/c1/json": apitest.Reply(200, `{"Id":"c1","Image":"0bad","State":{},"HostConfig":{},"Config":{"Labels":{"tare.run":"run-1"}}}`),
	})
	if a, err := apitest.Created(t, e).Inspect(t.Context()); !errors.Is(err, bench.ErrMismatch) {
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
		"user namespace and privileges": {`{}`, bench.Spec{Security: bench.Security{UserNS: true, Privileged: true}}},
		"another runtime":               {`{"host":{"ociRuntime":{"name":"crun"}}}`, bench.Spec{Runtime: "runc"}},
		"another store":                 {`{"store":{"graphDriverName":"vfs"}}`, bench.Spec{Snapshotter: "overlay"}},
	} {
		e, s := open(t, apitest.Answers{"GET /info": apitest.Reply(200, test.info)})
		test.spec.Image = "own"
		if _, err := e.Create(t.Context(), test.spec); !errors.Is(err, bench.ErrUnsupported) {
			t.Errorf("%s: Create = %v, want bench.ErrUnsupported", name, err)
		}
		if s.HasCall("POST /containers") {
			t.Errorf("%s: calls %q", name, s.Calls())
		}
	}
}

// Podman is asked for exactly what the Spec says.
func TestTranslation(t *testing.T) {
	var asked map[string]any
	e, _ := open(t,
		apitest.Answers{"POST /containers/create": apitest.Decode(t, &asked, apitest.Reply(201, `{"Id":"c1"}`))})
	spec := bench.Spec{
		Image: "own", Argv: []string{"/bin/x", "a"}, Env: []string{"K=v=w"}, Dir: "/d", Network: "bridge", Runtime: "crun",
		Reach: bench.ReachPublished, Ports: []bench.Port{{Container: 80, Protocol: "tcp"}},
		Limits:   bench.Limits{CPUs: 0.5, CPUSet: "1", Memory: 1 << 20, Pids: 7},
		Security: bench.Security{Seccomp: "unconfined", NoNewPrivileges: true, ReadOnly: true},
		Mounts: []bench.Mount{
			{Type: "tmpfs", Target: "/t", Size: 4096}, {Type: "bind", Source: "/s", Target: "/b", ReadOnly: true},
		},
	}
	if _, err := e.Create(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{
		"image": "own", "entrypoint": "[/bin/x]", "command": "[a]", "env": "map[K:v=w]", "work_dir": "/d",
		"labels": "map[tare.run:run-1]", "netns": "map[nsmode:bridge]",
		"portmappings": "[map[container_port:80 host_ip:127.0.0.1 protocol:tcp]]",
		"resource_limits": "map[cpu:map[cpus:1 period:100000 quota:50000] memory:map[limit:1.048576e+06 " +
			"swap:4.611686018427388e+18] pids:map[limit:7]]",
		"seccomp_profile_path": "unconfined", "annotations": "map[io.podman.annotations.seccomp:unconfined]",
		"no_new_privileges": "true", "read_only_filesystem": "true", "privileged": "<nil>",
		"mounts": "[map[destination:/t options:[size=4096] source:tmpfs type:tmpfs] map[destination:/b options:[rbind ro] " +
			"source:/s type:bind]]",
	} {
		if got := fmt.Sprint(asked[key]); got != want {
			t.Errorf("%s = %s, want %s", key, got, want)
		}
	}
}

// The operations are one call each.
func TestOperations(t *testing.T) {
	e, s := open(t, nil)
	var queries []string
	note := func(w http.ResponseWriter, r *http.Request) {
		queries = append(queries, r.URL.RawQuery)
		apitest.Reply(200, `{}`)(w, r)
	}
	for _, call := range []string{"pause", "unpause", "kill", "stop", "checkpoint", "restore"} {
		s.Set("POST /containers/c1/"+call, note)
	}
	ctx, c := t.Context(), apitest.Created(t, e)
	err := errors.Join(e.Pause(ctx, c), e.Resume(ctx, c), e.Signal(ctx, c, 15), e.Stop(ctx, c, 3*time.Second),
		e.Checkpoint(ctx, c), e.Restore(ctx, c))
	if want := []string{"", "", "signal=15", "timeout=3", "", ""}; err != nil || !slices.Equal(queries, want) {
		t.Errorf("%v; queries %q, want %q", err, queries, want)
	}
	if err := e.Restart(ctx); !errors.Is(err, bench.ErrUnsupported) {
		t.Errorf("Restart of somebody else's service = %v, want bench.ErrUnsupported", err)
	}
}

// Root's Podman has no pasta, whatever its version and whatever is installed.
func TestPastaOfRoot(t *testing.T) {
	e, _ := open(t, apitest.Answers{"GET /info": apitest.Reply(200, `{"host":{"cgroupControllers":["memory"],"cgroupVersion":"v2","cgroupManager":"systemd",
		"pasta":{"executable":"/usr/bin/pasta"},"ociRuntime":{"name":"crun"}},"store":{"graphDriverName":"overlay"},"version":{"Version":"5.4.2"}}`)})
	err := e.Prepare(t.Context(), bench.Spec{Image: "own", Argv: []string{"x"}, Network: "pasta"})
	if !errors.Is(err, bench.ErrUnsupported) || !strings.Contains(err.Error(), "for ordinary users only") {
		t.Errorf("Prepare = %v, want bench.ErrUnsupported and for whom it is", err)
	}
}

// A Podman that is slow is told as slow, with what to do.
func TestSlowPodman(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("an ordinary user's is asked for its version alone")
	}
	if _, err := os.Stat("/run/podman/podman.sock"); err == nil {
		t.Skip("a service answers at the usual socket")
	}
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "podman"), []byte("#!/bin/sh\nexec /bin/sleep 1000\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin)
	t.Setenv("CONTAINER_HOST", "")
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := podman.New(podman.Config{Name: "podman", Run: "run-1", Dir: t.TempDir()}).Probe(ctx)
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "host=unix://") ||
		strings.Contains(err.Error(), `""`) {
		t.Errorf("Probe = %v, want that it took too long, and what to do", err)
	}
}

// Podman fails to look at an image while another program makes or removes it: it is asked again.
func TestImageIsAskedForAgain(t *testing.T) {
	const halfMade = `{"cause":"runtime error: invalid memory address or nil pointer dereference","response":500}`
	img, err := apitest.FakeLibrary(t).Resolve(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	digest := strings.TrimPrefix(img.Digest(), "sha256:")
	at, tag := "/images/"+digest, "tare.local/run-1/podman/agent:latest"
	found := apitest.Reply(200, `{"Id":"`+digest+`","RepoTags":["other:1"]}`)
	failsOnce := func(then http.HandlerFunc) http.HandlerFunc {
		var calls atomic.Int32
		return func(w http.ResponseWriter, r *http.Request) {
			if calls.Add(1) == 1 {
				apitest.Reply(500, halfMade)(w, r)
				return
			}
			then(w, r)
		}
	}
	e, s := open(t, apitest.Answers{
		"GET " + at + "/json":          failsOnce(found),
		"POST " + at + "/tag":          failsOnce(apitest.Reply(201, ``)),
		"GET /images/" + tag + "/json": failsOnce(found),
		"POST /containers/create":      apitest.Reply(201, `{"Id":"c1"}`),
	})
	if _, err := e.Create(t.Context(), bench.Spec{}); err != nil {
		t.Fatal(err)
	}
	if s.HasCall("POST /images/load") {
		t.Errorf("calls %q, want nothing loaded", s.Calls())
	}
}

// Podman fails to count where another program removes an image or a container at the same time: it is asked again,
// but not for ever, and not for an answer that stays.
func TestDiskIsCountedAgain(t *testing.T) {
	const removed = `{"cause":"image not known","message":"reading image \"00ff\": image not known","response":500}`
	for name, test := range map[string]struct {
		fails, status int    // how often it fails, and how
		calls         int    // that are made
		want          string // part of the error; empty = none
	}{
		"removed meanwhile": {2, 500, 3, ""},
		"always":            {1 << 30, 500, 20, "disk usage: \"reading image"},
		"no such call":      {1 << 30, 404, 1, "disk usage"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // it waits
			var calls atomic.Int32
			e, _ := open(t, apitest.Answers{
				"GET /info": apitest.Reply(200, `{"host":{},"store":{"graphRoot":"/graph"},"version":{"Version":"5.4.2"}}`),
				"GET /system/df": func(w http.ResponseWriter, r *http.Request) {
					if int(calls.Add(1)) <= test.fails {
						apitest.Reply(test.status, removed)(w, r)
						return
					}
					apitest.Reply(200, `{"ImagesSize":7}`)(w, r)
				},
			})
			disk, err := e.Disk(t.Context())
			if test.want == "" && (err != nil || disk.Images != 7) ||
				test.want != "" && !strings.Contains(fmt.Sprint(err), test.want) {
				t.Errorf("Disk = %+v, %v; want 7 bytes of images, or an error with %q", disk, err, test.want)
			}
			if n := int(calls.Load()); n != test.calls {
				t.Errorf("%d calls, want %d", n, test.calls)
			}
		})
	}
}
