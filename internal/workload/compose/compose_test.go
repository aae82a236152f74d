package compose_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/enginetest"
	"github.com/tare-bench/tare/internal/run"
	"github.com/tare-bench/tare/internal/workload/compose"
	"github.com/tare-bench/tare/internal/workload/localtest"
	"github.com/tare-bench/tare/internal/workload/workloadtest"
)

// A projectEngine is a fake with projects. A service listens as soon as it is created.
type projectEngine struct {
	*enginetest.Fake
	mute    string         // service that never listens
	members []bench.Member // of the project, as long as it was not removed
	stays   []bench.Member // of the project after down
	fails   map[string]error
	image   string

	calls     []string
	listeners []net.Listener
	gone      bool
	volumes   []string // that were to go with a project
}

func newEngine(t *testing.T) *projectEngine {
	t.Helper()
	e := &projectEngine{Fake: enginetest.NewFake(enginetest.FakeConfig{Now: run.Monotonic()}), fails: map[string]error{}}
	t.Cleanup(e.hangUp)
	return e
}

func (e *projectEngine) hangUp() {
	for _, l := range e.listeners {
		_ = l.Close() // the socket may be gone
	}
}

func (e *projectEngine) call(name string) error {
	e.calls = append(e.calls, name)
	return e.fails[name]
}

func (e *projectEngine) Create(ctx context.Context, spec bench.Spec) (bench.Container, error) {
	service := spec.Member.Service
	if err := e.call("create " + service); err != nil {
		return nil, err
	}
	if service != e.mute {
		l, err := net.Listen("unix", spec.Argv[2])
		if err != nil {
			return nil, err
		}
		e.listeners = append(e.listeners, l)
	}
	e.members = append(e.members, bench.Member{
		ID: "id-" + service, Service: service, Status: "running", Running: true, Volumes: []string{"of-" + service},
	})
	return e.Fake.Create(ctx, spec)
}

func (e *projectEngine) Stop(_ context.Context, c bench.Container, grace time.Duration) error {
	return e.call(fmt.Sprintf("stop %s %v", c.ID(), grace))
}

func (e *projectEngine) MakeNetwork(context.Context, string) error { return e.call("network") }

func (e *projectEngine) DropNetwork(context.Context, string) error {
	e.members = e.stays
	return e.call("drop")
}

func (e *projectEngine) Members(context.Context, string) ([]bench.Member, error) {
	return e.members, e.fails["members"]
}

func (*projectEngine) Printed(context.Context, string) ([]byte, error) {
	return []byte("one\n\x1b[31mtwo\xff\n"), nil
}

func (e *projectEngine) RemoveProject(_ context.Context, project string, volumes ...string) error {
	if bench.ProjectRun(project) != "test" {
		return fmt.Errorf("project %q is of no run", project)
	}
	e.gone, e.volumes = true, append(e.volumes, volumes...)
	return e.fails["clear"]
}

func (e *projectEngine) Composing(context.Context, bench.Spec) (bench.Composing, error) {
	return bench.Composing{
		Programs: []string{"docker compose", "docker-compose"}, Env: []string{"DOCKER_HOST=unix:///none"}, Image: e.image,
	}, nil
}

func (e *projectEngine) Adopt(ctx context.Context, _ string, spec bench.Spec) (bench.Container, error) {
	return e.Fake.Create(ctx, spec)
}

func trial(t *testing.T, e bench.Engine, params ...string) bench.Sample {
	t.Helper()
	return workloadtest.Trials{
		Workload: compose.New(), Engine: e, Client: localtest.Native(t), Params: pairs(params),
	}.Run(t)[0]
}

// pairs are names and values in turn.
func pairs(params []string) map[string]string {
	given := map[string]string{}
	for i := 0; i < len(params); i += 2 {
		given[params[i]] = params[i+1]
	}
	return given
}

// The bare loop starts services in their order and ends them in the other one.
func TestOrder(t *testing.T) {
	e := newEngine(t)
	s := trial(t, e, "tool", "bare")
	if s.Outcome != bench.OK {
		t.Fatalf("%s: %s", s.Outcome, s.Reason)
	}
	want := []string{
		"network", "create s1", "create s2", "create s3",
		"stop fake-3 10s", "stop fake-2 10s", "stop fake-1 10s", "drop",
	}
	if diff := cmp.Diff(want, e.calls); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	starts := slices.DeleteFunc(e.Calls(), func(c string) bool {
		return !strings.HasPrefix(c, "start") && !strings.HasPrefix(c, "remove")
	})
	want = []string{"start 1", "start 2", "start 3", "remove 3", "remove 2", "remove 1"}
	if diff := cmp.Diff(want, starts); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	v := workloadtest.Values(compose.New(), s)
	if v[compose.Up] < v[compose.Command] || v[compose.Up] < v[compose.First] || len(s.Series) != 1 ||
		len(s.Series[0].Values) != 3 || !e.gone || !slices.Equal(e.volumes, []string{"of-s1", "of-s2", "of-s3"}) {
		t.Errorf("%v, %v, removed %t with %v", v, s.Series, e.gone, e.volumes)
	}
}

// wantFailure wants a trial that has failed, and that its project is gone.
func wantFailure(t *testing.T, e *projectEngine, s bench.Sample, operation, says string) {
	t.Helper()
	if s.Outcome != bench.Failed || s.Operation != operation || !strings.Contains(s.Reason, says) || !e.gone {
		t.Errorf("%s in %q: %s; removed %t", s.Outcome, s.Operation, s.Reason, e.gone)
	}
}

// Whatever fails is named, with the service, and what there is of the project is removed.
func TestBareFaults(t *testing.T) {
	no := errors.New("no space")
	left := []bench.Member{{ID: "x", Service: "s2", Status: "exited"}}
	for name, test := range map[string]struct {
		change          func(*projectEngine)
		operation, says string
	}{
		"network":    {func(e *projectEngine) { e.fails["network"] = no }, "up", "up: no space"},
		"create":     {func(e *projectEngine) { e.fails["create s2"] = no }, "up", "up: service s2: no space"},
		"stop":       {func(e *projectEngine) { e.fails["stop fake-2 10s"] = no }, "down", "down: service s2: no space"},
		"drop":       {func(e *projectEngine) { e.fails["drop"] = no }, "down", "down: no space"},
		"clean-up":   {func(e *projectEngine) { e.fails["clear"] = no }, "clean-up", "clean-up: no space"},
		"left":       {func(e *projectEngine) { e.stays = left }, "down", "left the container of service s2"},
		"not asked":  {func(e *projectEngine) { e.fails["members"] = no }, "inspect", "inspect: no space"},
		"never made": {func(e *projectEngine) { e.mute = "s3"; e.fails["create s3"] = no }, "up", "service s3: no space"},
		"never ready": {
			func(e *projectEngine) { e.mute = "s2" }, "ready",
			`service s2 was not ready in time after 1s: it runs, but does not accept connections; it printed last ` +
				`"one\n\x1b[31mtwo?"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEngine(t)
			test.change(e)
			s := trial(t, e, "tool", "bare", "timeout", "1s")
			wantFailure(t, e, s, test.operation, test.says)
		})
	}
}

// script puts a program of that name, in place of all others, where tare finds it.
func script(t *testing.T, name, text string) {
	t.Helper()
	dir := t.TempDir()
	text = "#!/bin/sh\n" + `[ "$1" != version ] || { echo "Compose version v9.8"; exit; }` + "\n" + text
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
}

// What goes wrong with a program is said in its own last words, without what could harm a terminal.
func TestProgramFaults(t *testing.T) {
	runs := bench.Member{ID: "1", Service: "s1", Status: "running", Running: true}
	created, ended := runs, runs
	created.Status, created.Running = "created", false
	ended.Status, ended.Running, ended.Exit = "exited", false, 3
	for name, test := range map[string]struct {
		text            string
		members         []bench.Member
		operation, says string
	}{
		"port taken": {
			`printf 'a\nb\nc\n\033[31mport is already allocated\n' >&2; exit 1`, nil, "up",
			`docker-compose 9.8: exit status 1; it printed last "a\nb\nc\n\x1b[31mport is already allocated"`,
		},
		"limit": {
			"echo 'Error: crun: setrlimit `RLIMIT_NOFILE`: Operation not permitted'; exit 126", nil, "up",
			"default_ulimits in containers.conf",
		},
		"much": {
			`i=0; while [ $i -lt 9999 ]; do echo abcdefghij $i; i=$((i+1)); done; exit 1`, nil, "up", `abcdefghij 9998"`,
		},
		"hangs": {
			`while :; do read -r x </dev/zero; done`, nil, "up",
			"service s1 was not ready in time after 1s: it was not made",
		},
		"not made": {`exit 0`, nil, "ready", "service s1 was not made"},
		"created": {
			`echo Error: no such runtime`,
			[]bench.Member{created},
			"ready",
			`service s1 was made, but not started: docker-compose 9.8 printed last "Error: no such runtime"`,
		},
		"has ended": {
			`exit 0`, []bench.Member{ended}, "ready", `service s1: it ended with exit status 3; it printed last "one\n`,
		},
		"not ready": {
			`exit 0`,
			[]bench.Member{runs},
			"ready",
			"service s1 was not ready in time after 1s: it runs, but does not accept",
		},
		"not a file": {`exec /nowhere`, nil, "up", "exit status 127"},
	} {
		t.Run(name, func(t *testing.T) {
			script(t, "docker-compose", test.text)
			e := newEngine(t)
			e.members = test.members
			s := trial(t, e, "services", "1", "timeout", "1s")
			wantFailure(t, e, s, test.operation, test.says)
		})
	}
}

func TestNoProgram(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	for tool, says := range map[string]string{
		"compose": "docker compose or docker-compose is not installed: install the package docker-compose-plugin or " +
			"docker-compose-v2 or the package docker-compose, or use tool bare",
		"docker-compose": "docker-compose is not installed: install the package docker-compose, or use tool bare",
		"podman-compose": "podman-compose cannot use engine fake: use docker compose or docker-compose",
	} {
		if s := trial(t, newEngine(t), "tool", tool); s.Outcome != bench.Unsupported || !strings.Contains(s.Reason, says) {
			t.Errorf("%s: %s: %s", tool, s.Outcome, s.Reason)
		}
	}
	script(t, "docker", `echo "docker: 'compose' is not a docker command."; exit 1`)
	s := trial(t, newEngine(t), "tool", "docker compose")
	if s.Outcome != bench.Unsupported || !strings.Contains(s.Reason, "docker compose is not installed") {
		t.Errorf("docker without the plugin: %s: %s", s.Outcome, s.Reason)
	}
}

func TestCheck(t *testing.T) {
	w := compose.New()
	plain := enginetest.NewFake(enginetest.FakeConfig{})
	for name, test := range map[string]struct {
		engine bench.Engine
		spec   bench.Spec
		says   string
	}{
		"another engine": {plain, bench.Spec{}, "engine fake: no compose program can use it: use docker or podman"},
		"network":        {newEngine(t), bench.Spec{Network: "host"}, "leave network out"},
		"image":          {newEngine(t), bench.Spec{Image: "debian"}, "brings its own program"},
		"limit":          {newEngine(t), bench.Spec{Limits: bench.Limits{CPUs: 1}}, "has no limits"},
	} {
		err := w.Check(t.Context(), workloadtest.Task(w, test.engine, test.spec))
		if !errors.Is(err, bench.ErrUnsupported) || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := w.Check(t.Context(), workloadtest.Task(w, newEngine(t), bench.Spec{Network: "bridge"})); err != nil {
		t.Error(err)
	}
	checker, _ := w.(bench.ParamChecker)
	if err := checker.CheckParams(map[string]string{"tool": "bare", "file": "x"}); err == nil {
		t.Error("a file for the bare loop is taken")
	}
	own := workloadtest.Task(w, newEngine(t), bench.Spec{}) // of one cell, where others have another tool
	own.Params = map[string]string{"tool": "bare", "file": "x"}
	if err := w.Check(t.Context(), own); !errors.Is(err, bench.ErrUnsupported) {
		t.Errorf("a file for the bare loop: %v", err)
	}
	for _, p := range w.Params() {
		if p.Valid != nil && p.Valid(p.Default) != nil {
			t.Errorf("the default of %s: %v", p.Name, p.Valid(p.Default))
		}
	}
}
