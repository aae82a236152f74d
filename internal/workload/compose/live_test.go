package compose_test

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/docker"
	"github.com/tare-bench/tare/internal/engine/enginetest"
	"github.com/tare-bench/tare/internal/engine/podman"
	"github.com/tare-bench/tare/internal/image/imagetest"
	"github.com/tare-bench/tare/internal/workload/compose"
	"github.com/tare-bench/tare/internal/workload/localtest"
	"github.com/tare-bench/tare/internal/workload/workloadtest"
)

// engines opens the engines that compose programs can use.
var engines = map[string]func(enginetest.Env) bench.Engine{
	"docker": func(env enginetest.Env) bench.Engine {
		return docker.New(docker.Config{Name: "docker", Run: env.Run, Dir: env.Dir, Images: env.Images})
	},
	"podman": func(env enginetest.Env) bench.Engine {
		return podman.New(podman.Config{Name: "podman", Run: env.Run, Dir: env.Dir, Images: env.Images})
	},
}

// A liveEngine is an engine of this machine, in a run of its own.
type liveEngine struct {
	bench.Engine
	run string
}

func (e liveEngine) Unwrap() bench.Engine { return e.Engine }

func open(t testing.TB, name string) liveEngine {
	t.Helper()
	env := enginetest.NewEnv(t, imagetest.Library(t))
	e := liveEngine{engines[name](env), env.Run}
	enginetest.Use(t, e)
	return e
}

// trial runs one trial. params are names and values in turn.
func (e liveEngine) trial(t *testing.T, params ...string) bench.Sample {
	t.Helper()
	return workloadtest.Trials{
		Workload: compose.New(), Engine: e, Client: localtest.Native(t), Params: pairs(params), ID: e.run,
	}.Run(t)[0]
}

// requireProgram ends the test unless a compose program is here. Where its engine must be, it must be too.
func requireProgram(t testing.TB, engine, name string) {
	t.Helper()
	_, err := exec.LookPath(name)
	enginetest.Require(t, engine, err)
}

// programs are the compose programs that tests use, by engine.
var programs = map[string]string{"docker": "docker-compose", "podman": "podman-compose"}

// nothingLeft checks that the engine has nothing of the run but images.
func (e liveEngine) nothingLeft(ctx context.Context, t *testing.T) {
	t.Helper()
	cleaner, _ := bench.As[bench.Cleaner](e)
	left, err := cleaner.Leftovers(ctx, func(run string) bool { return run == e.run })
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range left {
		if l.Kind != "image" && l.Kind != "process" && l.Kind != "directory" {
			t.Errorf("left: %s %s", l.Kind, l.ID)
		}
	}
}

// A compose program and the bare loop make the same services, and leave nothing.
func TestUpAndDown(t *testing.T) {
	for engine, program := range programs {
		t.Run(engine, func(t *testing.T) {
			requireProgram(t, engine, program)
			e := open(t, engine)
			applied := map[string]*bench.Applied{}
			tools := []string{program, "bare"}
			if engine == "docker" && exec.Command("docker", "compose", "version").Run() == nil {
				tools = append(tools, "docker compose")
			}
			for _, tool := range tools {
				s := e.trial(t, "tool", tool)
				v := workloadtest.Values(compose.New(), s)
				t.Logf("%s: %s %s %v %v", tool, s.Outcome, s.Reason, v, s.Series)
				if s.Outcome != bench.OK {
					t.Fatalf("%s: %s", s.Outcome, s.Reason)
				}
				if v[compose.First] <= 0 || v[compose.First] > v[compose.Up] || v[compose.Command] > v[compose.Up] ||
					v[compose.Down] <= 0 || len(s.Series) != 1 || len(s.Series[0].Values) != 3 {
					t.Errorf("%s: %v, %v", tool, v, s.Series)
				}
				applied[tool] = s.Applied
				e.nothingLeft(t.Context(), t)
			}
			one, other := applied[program], applied["bare"]
			if !regexp.MustCompile("^"+program+` [1-9][0-9]*[.]`).MatchString(one.Maker) || other.Maker != "" {
				t.Errorf("made by %q and %q", one.Maker, other.Maker)
			}
			one.Maker = ""
			for _, a := range []*bench.Applied{one, other} { // each cell has a directory of its own
				a.Argv, a.Mounts = a.Argv[:2], nil
			}
			if diff := cmp.Diff(other, one); diff != "" {
				t.Errorf("(-bare +%s):\n%s", program, diff)
			}
		})
	}
}

// A program that is cut short in the middle leaves nothing.
func TestCut(t *testing.T) {
	requireProgram(t, "docker", programs["docker"])
	e := open(t, "docker")
	limits := []time.Duration{600 * time.Millisecond, 300 * time.Millisecond, 900 * time.Millisecond}
	if testing.Short() {
		limits = limits[:1]
	}
	for _, limit := range limits {
		s := workloadtest.Trials{
			Workload: compose.New(), Engine: e, Client: localtest.Native(t), ID: e.run, Op: limit,
			Params: map[string]string{"tool": programs["docker"], "services": "8"},
		}.Run(t)[0]
		if s.Outcome != bench.TimedOut || s.Operation != "up" {
			t.Errorf("%s in %q: %s", s.Outcome, s.Operation, s.Reason)
		}
		e.nothingLeft(t.Context(), t)
	}
}

// userFile is a project with what files of users have: an anchor, a health check, a published port, a
// volume, a network with a name of its own, and a service that does its work and ends.
const userFile = `
x-agent: &agent
  image: IMAGE
  entrypoint: [/tare-agent]
services:
  db:
    <<: *agent
    command: [serve, "4811"]
    volumes: [data:/data, /more]
    healthcheck:
      test: [CMD, /tare-agent, probe, "4811"]
      interval: 200ms
  task:
    <<: *agent
    command: [exit, "0"]
    depends_on: [db]
  web:
    <<: *agent
    command: [serve, "4811"]
    ports: ["127.0.0.1:PORT:4811"]
    networks: [back]
networks:
  back:
volumes:
  data:
`

// imageFor loads an image that a file can name, and returns its name.
func imageFor(t *testing.T, e liveEngine) string {
	t.Helper()
	if err := e.Prepare(t.Context(), bench.Spec{}); err != nil {
		t.Fatal(err)
	}
	how, err := e.Engine.(bench.Composable).Composing(t.Context(), bench.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	return how.Image
}

func writeFile(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "compose.yaml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// freePort is a TCP port that nobody listens on, with a listener on it if it is to be taken.
func freePort(t *testing.T, taken bool) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if taken {
		t.Cleanup(func() { _ = l.Close() })
	} else if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(l.Addr().String()) // an address is well formed
	return port
}

// A file of the user's is ready by its health check, its port, or because it runs. What it makes is
// removed, volumes too.
func TestFile(t *testing.T) {
	for engine, program := range programs {
		if testing.Short() && engine == "podman" {
			continue // podman-compose waits for a second after each container
		}
		t.Run(engine, func(t *testing.T) {
			requireProgram(t, engine, program)
			localtest.LimitsForPodman(t)
			e := open(t, engine)
			text := strings.NewReplacer("IMAGE", imageFor(t, e), "PORT", freePort(t, false)).Replace(userFile)
			if engine == "podman" { // its health checks need systemd, and podman-compose 1.0.3 takes no map of nulls
				text = regexp.MustCompile(`(?s)    healthcheck:.*?200ms\n`).ReplaceAllString(text, "")
				text = strings.NewReplacer("    networks: [back]\n", "", "networks:\n  back:\n", "", "  data:\n", "  data: {}\n").
					Replace(text)
			}
			s := e.trial(t, "file", writeFile(t, text))
			v := workloadtest.Values(compose.New(), s)
			t.Logf("%s %s %v", s.Outcome, s.Reason, v)
			if s.Outcome != bench.OK || v[compose.Up] <= v[compose.Command] || v[compose.Down] <= 0 || s.Applied == nil ||
				!slices.Equal(s.Applied.Argv, []string{"/tare-agent", "serve", "4811"}) {
				t.Errorf("%s: %s: %v, %+v", s.Outcome, s.Reason, v, s.Applied)
			}
			e.nothingLeft(t.Context(), t)
		})
	}
}

// What is wrong with a file, or with a service, is said by name, and nothing is left.
func TestFileFaults(t *testing.T) {
	const engine = "docker"
	requireProgram(t, engine, programs[engine])
	e := open(t, engine)
	t.Cleanup(func() { e.nothingLeft(context.Background(), t) })
	image := imageFor(t, e)
	one := func(more string) string { return "services:\n  a:\n    image: " + image + "\n" + more }
	agent := "    entrypoint: [/tare-agent]\n"
	for name, test := range map[string]struct {
		text    string
		outcome bench.Outcome
		says    string
	}{
		"not YAML":    {"services: [", bench.Skipped, "docker-compose config: exit status 1; it printed last"},
		"unknown key": {one("    imagine: x\n"), bench.Skipped, "imagine"},
		"fixed name":  {one("    container_name: x\n"), bench.Unsupported, `service a has the fixed name "x"`},
		"no image":    {"services: {a: {image: nowhere/none}}", bench.Skipped, "docker pull nowhere/none"},
		"port taken": {
			one(agent + "    command: [hold]\n    ports: ['127.0.0.1:" + freePort(t, true) + ":80']\n"), bench.Failed,
			"address already in use",
		},
		"ends": {one(agent + "    command: [exit, '3']\n"), bench.Failed, "service a: it ended with exit status 3"},
		"never ready": {
			one(agent + "    command: [hold]\n    healthcheck: {test: [CMD, /tare-agent, exit, '1'], interval: 1h}\n"),
			bench.Failed,
			`service a was not ready in time after 6s: it runs, and its health check says "starting"; it printed last "ready"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // each is a project of its own
			timeout := "1m"
			if name == "never ready" {
				timeout = "6s" // it takes as long, and the container has to run by then
			}
			s := e.trial(t, "file", writeFile(t, test.text), "timeout", timeout, "tool", "docker-compose")
			if s.Outcome != test.outcome || !strings.Contains(s.Reason, test.says) {
				t.Errorf("%s: %s", s.Outcome, s.Reason)
			}
		})
	}
}
