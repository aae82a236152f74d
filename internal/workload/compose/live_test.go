package compose_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/docker"
	"github.com/tare-bench/tare/internal/engine/enginetest"
	"github.com/tare-bench/tare/internal/engine/podman"
	"github.com/tare-bench/tare/internal/image/imagetest"
	"github.com/tare-bench/tare/internal/kernel/readback"
	"github.com/tare-bench/tare/internal/workload/compose"
	"github.com/tare-bench/tare/internal/workload/localtest"
	"github.com/tare-bench/tare/internal/workload/workloadtest"
)

// engines opens the engines that compose programs can use. The runner of tests has the run "test".
var engines = map[string]func(enginetest.Env) bench.Engine{
	"docker": func(env enginetest.Env) bench.Engine {
		return docker.New(docker.Config{Name: "docker", Run: "test", Dir: env.Dir, Images: env.Images})
	},
	"podman": func(env enginetest.Env) bench.Engine {
		return podman.New(podman.Config{Name: "podman", Run: "test", Dir: env.Dir, Images: env.Images})
	},
}

func open(t testing.TB, name string) bench.Engine {
	t.Helper()
	e := engines[name](enginetest.NewEnv(t, imagetest.Library(t)))
	enginetest.Use(t, e)
	return e
}

// requireProgram ends the test unless a compose program is here. Where its engine must be, it must be too.
func requireProgram(t testing.TB, engine, name string) {
	t.Helper()
	_, err := exec.LookPath(name)
	enginetest.Require(t, engine, err)
}

// allowLimits lets podman itself make containers where the kernel withholds CAP_SYS_RESOURCE, as in many
// sandboxes: with limits that are below its own.
func allowLimits(t testing.TB) {
	t.Helper()
	if lacks, err := readback.Unavailable(readback.Self); err != nil || lacks == 0 {
		return
	}
	limit := func(resource int) uint64 {
		var l unix.Rlimit
		if err := unix.Getrlimit(resource, &l); err != nil {
			t.Fatal(err)
		}
		return min(l.Max/2, 30_000) // podman lowers its own to kernel.pid_max
	}
	conf := filepath.Join(t.TempDir(), "containers.conf")
	text := fmt.Sprintf("[containers]\ndefault_ulimits = [\"nofile=%[1]d:%[1]d\", \"nproc=%[2]d:%[2]d\"]\n",
		limit(unix.RLIMIT_NOFILE), limit(unix.RLIMIT_NPROC))
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("CONTAINERS_CONF", conf)
}

// programs are the compose programs that tests use, by engine.
var programs = map[string]string{"docker": "docker-compose", "podman": "podman-compose"}

// nothingLeft checks that the engine has nothing of the run but images.
func nothingLeft(t *testing.T, e bench.Engine) {
	t.Helper()
	cleaner, _ := bench.As[bench.Cleaner](e)
	left, err := cleaner.Leftovers(t.Context(), func(run string) bool { return run == "test" })
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
			allowLimits(t)
			e := open(t, engine)
			applied := map[string]*bench.Applied{}
			for _, tool := range []string{program, "bare"} {
				s := workloadtest.Trials{
					Workload: compose.New(), Engine: e, Client: localtest.Native(t), Params: map[string]string{"tool": tool},
				}.Run(t)[0]
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
				nothingLeft(t, e)
			}
			one, other := applied[program], applied["bare"]
			if !strings.HasPrefix(one.Maker, program+" 1.") || other.Maker != "" {
				t.Errorf("made by %q and %q", one.Maker, other.Maker)
			}
			if one.Image != other.Image || one.Network != "bridge" || other.Network != "bridge" || one.Runtime != other.Runtime ||
				one.Security != other.Security || one.Limits != other.Limits || one.Storage != other.Storage ||
				strings.Join(one.Argv[:2], " ") != strings.Join(other.Argv[:2], " ") || one.Shm != other.Shm {
				t.Errorf("%+v, bare: %+v", one, other)
			}
		})
	}
}

// A file of the user's is ready by its health check, its port, or because it runs.
func TestFile(t *testing.T) {
	_ = os.Getenv
	_ = filepath.Join
}
