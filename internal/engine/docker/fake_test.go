package docker_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/apitest"
	"github.com/tare-bench/tare/internal/engine/docker"
	"github.com/tare-bench/tare/internal/engine/enginetest"
)

// at returns an engine at host, with the images of a stand-in agent.
func at(t *testing.T, host string) *docker.Engine {
	t.Helper()
	e := docker.New(docker.Config{
		Name: "docker", Run: "run-1", Dir: t.TempDir(), Images: apitest.FakeLibrary(t), Host: host,
	})
	t.Cleanup(func() { _ = e.Close(context.Background()) }) // the fakes do not know the call
	return e
}

// open returns an engine on a server that answers the calls that begin every
// use, so that a test lists only what it is about.
func open(t *testing.T, answers apitest.Answers) (*docker.Engine, *apitest.Server) {
	t.Helper()
	ping := func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Api-Version", "1.41") }
	s := apitest.Serve(t, "/v1.41", apitest.Answers{
		"HEAD /_ping":  ping,
		"GET /_ping":   ping,
		"GET /version": apitest.Reply(200, `{"Version":"1","ApiVersion":"1.41"}`),
		"GET /info": apitest.Reply(200,
			infoWith(`"CpuCfsPeriod":true,"CpuCfsQuota":true,"CPUSet":true,"MemoryLimit":true,"PidsLimit":true`)),
		"GET /images/own/json":    apitest.Reply(200, `{"Id":"sha256:00ff"}`),
		"POST /containers/create": apitest.Reply(201, `{"Id":"c1"}`),
	}, answers)
	return at(t, "unix://"+s.Socket), s
}

// infoWith is what an engine says of itself, and of its control groups.
func infoWith(groups string) string {
	return `{"Driver":"overlay2","CgroupDriver":"cgroupfs","CgroupVersion":"2","Runtimes":{"runc":{}},` + groups + `}`
}

func TestProbeOfAnAbsentEngine(t *testing.T) {
	for name, host := range map[string]string{
		"no socket":       "unix://" + filepath.Join(t.TempDir(), "none.sock"),
		"nobody listens":  "unix://" + apitest.DeadSocket(t),
		"refused by port": "tcp://127.0.0.1:1",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := at(t, host).Probe(t.Context())
			if !errors.Is(err, bench.ErrUnsupported) || !strings.Contains(fmt.Sprint(err), "systemctl start docker") {
				t.Errorf("Probe = %v, want bench.ErrUnsupported and how to start it", err)
			}
		})
	}
}

func TestOutputThatOnlyTheLogHas(t *testing.T) {
	apitest.OutputOfLog(t, open, "containers/c1/c1-json.log", func(root string) apitest.Answers {
		return apitest.Answers{
			"GET /info":                apitest.Reply(200, infoWith(`"DockerRootDir":"`+root+`"`)),
			"POST /containers/c1/wait": apitest.Reply(200, `{"StatusCode":0}`),
		}
	})
}

// No permission cannot be had by root, so the socket lies where a file is.
func TestProbeErrorsThatSayNothing(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, host := range map[string]string{
		"not a directory": "unix://" + file + "/docker.sock", "no host": "no-such-scheme",
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := at(t, host).Probe(t.Context()); err == nil || errors.Is(err, bench.ErrUnsupported) {
				t.Errorf("Probe = %v, want an error that is not conclusive", err)
			}
		})
	}
}

func TestBadAnswers(t *testing.T) {
	apitest.BadAnswers(t, open, map[string]apitest.BadAnswer{
		"probe: error":          {Call: "GET /version", Answer: apitest.Reply(500, `{"message":"disk on fire"}`), Want: "disk on fire", Do: apitest.Probe},
		"probe: garbage":        {Call: "GET /version", Answer: apitest.Reply(200, `{"Version":`), Want: "docker: version", Do: apitest.Probe},
		"probe: another server": {Call: "GET /info", Answer: apitest.Reply(200, `<html>`), Want: "docker: info", Do: apitest.Probe},
		"prepare: image missing": {
			Call: "GET /images/own/json", Answer: apitest.Reply(404, `{"message":"No such image: own"}`),
			Want: "docker pull own", Do: apitest.Prepare("own"),
		},
		"prepare: load fails": {
			Call: "POST /images/load", Answer: apitest.Reply(200, `{"error":"no space left on device"}`),
			Want: "no space left on device", Do: apitest.Prepare(""),
		},
		"prepare: another image": {Call: "POST /images/load", Answer: apitest.Reply(200, `{"stream":"ok"}`), Want: "no such object", Do: apitest.Prepare("")},
		"pull: refused": {
			Call: "POST /images/create", Answer: apitest.Reply(500, `{"message":"connection refused"}`),
			Want: "connection refused", Do: apitest.Pull,
		},
		"pull: fails": {
			Call: "POST /images/create", Answer: apitest.Reply(200, `{"status":"Pulling"}{"error":"no space left on device"}`),
			Want: "no space left on device", Do: apitest.Pull,
		},
		"pull: garbage": {
			Call: "POST /images/create", Answer: apitest.Reply(200, `{"status":`),
			Want: "docker: pull 127.0.0.1:1/tare-run-1/docker:1", Do: apitest.Pull,
		},
		"create: error":    {Call: "POST /containers/create", Answer: apitest.Reply(409, `{"message":"name in use"}`), Want: "name in use", Do: apitest.Create},
		"create: garbage":  {Call: "POST /containers/create", Answer: apitest.Reply(201, `[]`), Want: "docker: create tare-run-1-docker-", Do: apitest.Create},
		"leftovers: error": {Call: "GET /containers/json", Answer: apitest.Reply(500, `{"message":"store locked"}`), Want: "list containers", Do: apitest.Leftovers},
	})
}

func TestHangs(t *testing.T) {
	withExec := func(t *testing.T, _ apitest.Answers) (*docker.Engine, *apitest.Server) {
		return open(t,
			apitest.Answers{
				"POST /containers/c1/exec": apitest.Reply(201, `{"Id":"x1"}`), "POST /exec/x1/start": apitest.Stream(""),
			})
	}
	apitest.Hangs(t, withExec, map[string]apitest.ContainerCall{
		"probe":         {Call: "GET /version", Do: func(ctx context.Context, e apitest.Engine, _ bench.Container) error { return apitest.Probe(ctx, e) }},
		"pull":          {Call: "POST /images/create", Do: func(ctx context.Context, e apitest.Engine, _ bench.Container) error { return apitest.Pull(ctx, e) }},
		"exec: start":   {Call: "POST /exec/x1/start", Do: apitest.Exec},
		"exec: inspect": {Call: "GET /exec/x1/json", Do: apitest.Exec},
	})
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
		"not framed": {"hello, world", `{"Running":false}`, "", "not framed as stdout and stderr", 0},
		"garbage":    {"", `{"Running":`, "", "docker: exec in c1", 0},
	} {
		t.Run(name, func(t *testing.T) {
			e, _ := open(t, apitest.Answers{
				"POST /containers/c1/exec": apitest.Reply(201, `{"Id":"x1"}`),
				"POST /exec/x1/start":      apitest.Stream(test.stream),
				"GET /exec/x1/json":        apitest.Reply(200, test.end),
			})
			var out bytes.Buffer
			exit, err := e.Exec(t.Context(), apitest.Created(t, e), []string{"/x"}, &out, nil)
			if exit.Code != test.code || out.String() != test.out || (err == nil) != (test.want == "") ||
				!strings.Contains(fmt.Sprint(err), test.want) {
				t.Errorf("Exec = %v, %v and %q; want %d, %q and %q", exit, err, out.String(), test.code, test.want, test.out)
			}
		})
	}
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
			`[{"Id":"i","RepoTags":["tare.local/dead/docker/agent:latest","tare.local:latest","debian:12"]}]`),
		"GET /networks": apitest.Reply(200,
			`[{"Id":"n1","Labels":{"tare.run":"dead"}},{"Id":"n2","Labels":{"tare.run":"alive"}},{"Id":"n3"}]`),
		"GET /containers/c1/json": apitest.Reply(200, `{"Id":"c1","Config":{"Labels":{"tare.run":"another"}}}`),
		"GET /containers/c4/json": apitest.Reply(200,
			`{"Id":"c4","Config":{"Labels":{"com.docker.compose.project":"shop"}}}`),
		"GET /networks/n1": apitest.Reply(200, `{"Id":"n1","Labels":{"tare.run":"another"}}`),
		"GET /volumes": apitest.Reply(200,
			`{"Volumes":[{"Name":"v1","Labels":{"tare.run":"dead"}},{"Name":"v2"},{"Name":"v3","Labels":{"tare.run":"alive"}}]}`),
		"GET /volumes/v1": apitest.Reply(200, `{"Name":"v1","Labels":{"tare.run":"another"}}`),
	})
	left, err := e.Leftovers(t.Context(), func(run string) bool { return run == "dead" || run == "../x" })
	if err != nil || len(left) != 5 || left[0].ID != "c1" || left[1].ID != "c4" || left[2].ID != "n1" || left[3].ID != "v1" ||
		left[4].ID != "tare.local/dead/docker/agent:latest" {
		t.Fatalf("Leftovers = %v, %v; want c1, c4, n1, v1 and the image", left, err)
	}
	left[4].ID = "debian:12"
	for _, l := range left {
		if err := e.RemoveLeftover(t.Context(), l); err == nil {
			t.Errorf("the %s %s is removed, which another run has or which is not tare's", l.Kind, l.ID)
		}
	}
	if s.HasCall("DELETE") {
		t.Errorf("calls: %q", s.Calls())
	}
}

func TestOutput(t *testing.T) { apitest.Output(t, open, apitest.Reply(200, `{"StatusCode":0}`)) }

func TestForeignID(t *testing.T) {
	apitest.ForeignID(t, open, `{"Id":"other","Image":"sha256:00ff","State":{},"HostConfig":{"NetworkMode":"none"},
		"Config":{"Labels":{"tare.run":%q}}}`)
}

func TestImageThatIsThere(t *testing.T) {
	apitest.PresentImage(t, open, "docker", func(digest string) string { return digest })
}

// Docker 20.10 refuses to count while it counts for another program: it is asked again.
func TestDiskIsCountedAgain(t *testing.T) {
	var calls atomic.Int32
	e, _ := open(t, apitest.Answers{
		"GET /system/df": func(w http.ResponseWriter, r *http.Request) {
			if calls.Add(1) < 3 {
				apitest.Reply(500, `{"message":"a disk usage operation is already running"}`)(w, r)
				return
			}
			apitest.Reply(200, `{"LayersSize":7,"Images":[]}`)(w, r)
		},
	})
	if disk, err := e.Disk(t.Context()); err != nil || disk.Images != 7 {
		t.Errorf("Disk = %+v, %v", disk, err)
	}
	if n := calls.Load(); n != 3 {
		t.Errorf("%d calls, want 3", n)
	}
}

// A tag can be another image by the time that a container is made of it.
func TestAnotherImage(t *testing.T) {
	e, _ := open(t, apitest.Answers{
		"GET /containers/c1/json": apitest.Reply(200, `{"Id":"c1","Image":"sha256:0bad","State":{},"HostConfig":{},"Config":{"Labels":{"tare.run":"run-1"}}}`),
	})
	if a, err := apitest.Created(t, e).Inspect(t.Context()); !errors.Is(err, bench.ErrMismatch) {
		t.Errorf("Inspect = %+v, %v; want bench.ErrMismatch", a, err)
	}
}

// The engine is asked for exactly what the Spec says.
func TestTranslation(t *testing.T) {
	var asked map[string]any
	e, _ := open(t,
		apitest.Answers{"POST /containers/create": apitest.Decode(t, &asked, apitest.Reply(201, `{"Id":"c1"}`))})
	spec := bench.Spec{
		Image: "own", Argv: []string{"/bin/x", "a"}, Network: "bridge",
		Reach: bench.ReachPublished, Ports: []bench.Port{{Container: 80, Protocol: "tcp"}},
		Limits:   bench.Limits{CPUs: 0.5, CPUSet: "1", Memory: 1 << 20, Pids: 7},
		Security: bench.Security{Seccomp: "unconfined", NoNewPrivileges: true, ReadOnly: true},
		Mounts:   []bench.Mount{{Type: "tmpfs", Target: "/t", Size: 4096}},
	}
	if _, err := e.Create(t.Context(), spec); err != nil {
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

// A limit that the engine would leave out is refused, and no other.
func TestLimitsWithoutControlGroup(t *testing.T) {
	groups := map[string]string{
		"cpu": `"CpuCfsPeriod":true,"CpuCfsQuota":true`, "cpuset": `"CPUSet":true`, "memory": `"MemoryLimit":true`,
		"pids": `"PidsLimit":true`,
	}
	limits := map[string]bench.Limits{
		"cpu": {CPUs: 0.5}, "cpuset": {CPUSet: "1"}, "memory": {Memory: 1 << 20}, "pids": {Pids: 7},
	}
	for has, fields := range groups {
		e, _ := open(t, apitest.Answers{"GET /info": apitest.Reply(200, infoWith(fields))})
		for asked, l := range limits {
			_, err := e.Create(t.Context(), bench.Spec{Image: "own", Limits: l})
			refused := errors.Is(err, bench.ErrUnsupported) &&
				strings.Contains(err.Error(), "limit of "+asked+": this engine has no such control group")
			if asked == has && err != nil || asked != has && !refused {
				t.Errorf("a limit of %s where there are control groups of %s: %v", asked, has, err)
			}
		}
	}
}

// Where no host is named, the engine is looked for where the docker command and a
// rootless engine have it.
func TestWhereTheEngineIs(t *testing.T) {
	if os.Geteuid() == 0 {
		enginetest.AsOrdinaryUser(t, "TestWhereTheEngineIs") // root may use the usual socket
		return
	}
	home, config, run := t.TempDir(), t.TempDir(), t.TempDir()
	_, s := open(t, nil)
	if err := os.Symlink(s.Socket, filepath.Join(run, "docker.sock")); err != nil {
		t.Fatal(err)
	}
	context := func(dir, name, host string) {
		sum := sha256.Sum256([]byte(name))
		meta := filepath.Join(dir, "contexts", "meta", hex.EncodeToString(sum[:]), "meta.json")
		text := `{"Name":"` + name + `","Metadata":{},"Endpoints":{"docker":{"Host":"` + host + `","SkipTLSVerify":false}}}`
		if err := errors.Join(os.MkdirAll(filepath.Dir(meta), 0o700), os.WriteFile(meta, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	context(filepath.Join(home, ".docker"), "mine", "unix://"+s.Socket)
	context(config, "mine", "unix:///other.sock")
	context(config, "far", "ssh://user@host")
	if err := os.WriteFile(filepath.Join(config, "config.json"),
		[]byte(`{"auths":{},"currentContext":"mine"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		env  map[string]string
		want string // in the error; empty for none
	}{
		"a context by name":            {map[string]string{"DOCKER_CONTEXT": "mine"}, ""},
		"the current context":          {map[string]string{"DOCKER_CONFIG": config}, "unix:///other.sock"},
		"the default context":          {map[string]string{"DOCKER_CONTEXT": "default", "DOCKER_CONFIG": config, "XDG_RUNTIME_DIR": run}, ""},
		"a host before a context":      {map[string]string{"DOCKER_HOST": "unix:///named.sock", "DOCKER_CONTEXT": "mine"}, "unix:///named.sock"},
		"no such context":              {map[string]string{"DOCKER_CONTEXT": "none"}, "it does not exist in " + filepath.Join(home, ".docker")},
		"a context that needs a login": {map[string]string{"DOCKER_CONTEXT": "far", "DOCKER_CONFIG": config}, `"ssh://user@host"`},
		"the user's own":               {map[string]string{"XDG_RUNTIME_DIR": run}, ""},
		"the usual one":                {map[string]string{"XDG_RUNTIME_DIR": home}, "/var/run/docker.sock"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, key := range []string{"DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "XDG_RUNTIME_DIR"} {
				t.Setenv(key, test.env[key])
			}
			t.Setenv("HOME", home)
			_, err := at(t, "").Probe(t.Context())
			if (err == nil) != (test.want == "") || !strings.Contains(fmt.Sprint(err), test.want) && err != nil ||
				err != nil && !errors.Is(err, bench.ErrUnsupported) {
				t.Errorf("Probe = %v, want an error that wraps bench.ErrUnsupported with %q, or none", err, test.want)
			}
		})
	}
}

// An engine with containerd's image store names images by their manifests: the digest of
// the configuration, which other engines tell, is not known then. Of what a run has pulled
// the manifest is told, by which the registry knows it.
func TestImageByManifest(t *testing.T) {
	const byManifest = `"DriverStatus":[["driver-type","io.containerd.snapshotter.v1"]],`
	const pulled = "127.0.0.1:5000/tare-run-1/docker:1"
	for name, test := range map[string]struct {
		ref, image, info, want string
	}{
		"its own store":        {"own", `{"Id":"sha256:00ff"}`, ``, "sha256:00ff"},
		"containerd's":         {"own", `{"Id":"sha256:00ff","Descriptor":{"digest":"sha256:00ff"}}`, ``, ""},
		"containerd's, 1.47":   {"own", `{"Id":"sha256:00ff"}`, byManifest, ""},
		"containerd's, pulled": {pulled, `{"Id":"sha256:00ff","Descriptor":{"digest":"sha256:00ff"}}`, ``, "sha256:00ff"},
	} {
		t.Run(name, func(t *testing.T) {
			e, _ := open(t, apitest.Answers{
				"GET /info":                         apitest.Reply(200, infoWith(test.info+`"MemoryLimit":true`)),
				"GET /images/" + test.ref + "/json": apitest.Reply(200, test.image),
				"GET /containers/c1/json": apitest.Reply(200,
					`{"Id":"c1","Image":"sha256:00ff","State":{},"HostConfig":{"NetworkMode":"none"},
						"Config":{"Labels":{"tare.run":"run-1"}}}`),
			})
			spec := bench.Spec{Image: test.ref, Argv: []string{"x"}}
			if err := e.Prepare(t.Context(), spec); err != nil {
				t.Fatal(err)
			}
			c, err := e.Create(t.Context(), spec)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := c.Inspect(t.Context()); err != nil || got.Image != test.want {
				t.Errorf("image %q, %v; want %q", got.Image, err, test.want)
			}
		})
	}
}

// The network that a rootless engine calls the host's is its own.
func TestRootlessHost(t *testing.T) {
	e, _ := open(t,
		apitest.Answers{"GET /info": apitest.Reply(200, infoWith(`"SecurityOptions":["name=rootless"],"MemoryLimit":true`))})
	err := e.Prepare(t.Context(), bench.Spec{Image: "own", Argv: []string{"x"}, Network: "host"})
	if !errors.Is(err, bench.ErrUnsupported) || !strings.Contains(err.Error(), "--network bridge") {
		t.Errorf("Prepare = %v, want bench.ErrUnsupported, and what to take instead", err)
	}
}

// An engine that answers without end is given up, whatever it was asked.
func TestAnswerWithoutEnd(t *testing.T) {
	endless := func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"Driver":"`)
		for line := bytes.Repeat([]byte("x"), 1<<20); ; {
			if _, err := w.Write(line); err != nil {
				return
			}
		}
	}
	e, _ := open(t, apitest.Answers{"GET /info": endless})
	// A Probe has 10 s, in which a busy machine may not read as much.
	if err := apitest.Prepare("own")(t.Context(), e); err == nil || !strings.Contains(err.Error(), "longer than 64 MiB") {
		t.Errorf("Prepare = %v, want that the answer is too long", err)
	}
}

// An engine that says that it has removed what it still has is not believed.
func TestRemoveThatRemovesNothing(t *testing.T) {
	e, s := open(t, apitest.Answers{
		"DELETE /containers/c1":   apitest.Reply(204, ""),
		"GET /containers/c1/json": apitest.Reply(200, `{"Id":"c1","State":{}}`),
	})
	c := apitest.Created(t, e)
	if err := c.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := e.Gone(t.Context(), c); err == nil || !strings.Contains(err.Error(), "still has it") {
		t.Errorf("Gone = %v, want an error for a container that is there", err)
	}
	s.Set("GET /containers/c1/json", apitest.Reply(404, `{"message":"No such container"}`))
	if err := e.Gone(t.Context(), c); err != nil {
		t.Errorf("Gone = %v, want none for a container that is no more", err)
	}
}
