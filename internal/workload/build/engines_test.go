package build_test

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tare-bench/tare/internal/agent"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/docker"
	"github.com/tare-bench/tare/internal/engine/enginetest"
	"github.com/tare-bench/tare/internal/engine/podman"
	"github.com/tare-bench/tare/internal/image/imagetest"
	"github.com/tare-bench/tare/internal/run"
	"github.com/tare-bench/tare/internal/workload/build"
	"github.com/tare-bench/tare/internal/workload/workloadtest"
)

// An opened engine.
type opened struct {
	bench.Engine
	bench.ImageBuilder
	cleaner bench.Cleaner
	run     string
}

func open(t testing.TB, name string) opened {
	t.Helper()
	s := enginetest.NewEnv(t, imagetest.Library(t))
	if name == "podman" {
		e := podman.New(podman.Config{Name: name, Run: s.Run, Dir: s.Dir, Images: s.Images})
		enginetest.Use(t, e)
		return opened{e, e, e, s.Run}
	}
	e := docker.New(docker.Config{Name: name, Run: s.Run, Dir: s.Dir, Images: s.Images})
	enginetest.Use(t, e)
	return opened{e, e, e, s.Run}
}

// left lists what builds of a run have left.
func (o opened) left(t *testing.T, run string) (left []bench.Leftover) {
	t.Helper()
	all, err := o.cleaner.Leftovers(t.Context(), func(r string) bool { return r == run })
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range all {
		if l.Kind == "cache" || l.Kind == "container" || l.Kind == "image" && !strings.HasSuffix(l.ID, "/agent:latest") {
			left = append(left, l)
		}
	}
	return left
}

var builders = []struct{ engine, builder string }{
	{"docker", bench.BuilderClassic}, {"docker", bench.BuilderKit}, {"podman", ""},
}

func each(t *testing.T, test func(t *testing.T, e opened, builder string)) {
	for _, b := range builders {
		t.Run(strings.Trim(b.engine+" "+b.builder, " "), func(t *testing.T) {
			e := open(t, b.engine)
			if tool, err := e.BuildTool(t.Context(), b.builder); b.builder == bench.BuilderKit && errors.Is(err, bench.ErrUnsupported) {
				t.Skip(err)
			} else if err != nil {
				t.Fatal(err)
			} else {
				t.Log(tool)
			}
			test(t, e, b.builder)
		})
	}
}

// Every builder: the parts of a build are found, the second one is all from the cache, the next trial
// finds nothing of it, and nothing is left.
func TestEngines(t *testing.T) {
	each(t, func(t *testing.T, e opened, builder string) {
		w := build.New()
		params := map[string]string{"files": "4", "size": "1MiB", "steps": "2"}
		if builder != "" {
			params["builder"] = builder
		}
		for _, s := range (workloadtest.Trials{Workload: w, Engine: e.Engine, Params: params, N: 2}).Run(t) {
			v := workloadtest.Values(w, s)
			t.Log(s.Notes, v)
			if s.Outcome != bench.OK {
				t.Fatalf("%s: %s", s.Outcome, s.Reason)
			}
			if v[build.Rebuild] >= v[build.Total] || v[build.RunStep] <= 0 || v[build.Size] < 2<<20 {
				t.Errorf("%v", v)
			}
			for _, note := range s.Notes {
				if note == build.NoteReran {
					t.Error("the second build ran steps")
				}
			}
		}
		if left := e.left(t, "test"); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
	})
}

// file writes a build file of one stage into a directory that is also its context.
func file(t testing.TB, run, steps string) bench.Build {
	t.Helper()
	dir, mark := t.TempDir(), bench.BuildMark(run, "abcdefgh01234567")
	name := filepath.Join(dir, "Dockerfile")
	text := "ARG TARE_BASE\nFROM ${TARE_BASE}\nLABEL tare.run=\"" + run + "\" tare.build=\"" + mark + "/1\"\n" +
		"RUN [\"" + agent.Path + "\", \"echo\", \"" + mark + "/1\"]\n" + steps
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return bench.Build{Mark: mark, File: name, Context: dir, Base: bench.AgentImage}
}

// A step that fails is named with what it said; one that hangs ends with the context. What both leave is
// found, as after a kill of tare, and removed.
func TestFaults(t *testing.T) {
	each(t, func(t *testing.T, e opened, builder string) {
		if err := e.Prepare(t.Context(), bench.Spec{}); err != nil {
			t.Fatal(err)
		}
		b := file(t, e.run, "RUN [\""+agent.Path+"\", \"no-such-task\"]\n")
		b.Builder = builder
		_, err := e.Build(t.Context(), b, run.Monotonic())
		if err == nil || !strings.Contains(err.Error(), "no-such-task") || !strings.Contains(err.Error(), "there is no task") {
			t.Errorf("a step that fails: %v", err)
		}
		t.Log(err)

		b = file(t, e.run, "RUN [\""+agent.Path+"\", \"hold\"]\n")
		b.Builder = builder
		ctx, cancel := context.WithTimeoutCause(t.Context(), 3*time.Second, bench.ErrOpTime)
		defer cancel()
		if _, err = e.Build(ctx, b, run.Monotonic()); !errors.Is(err, bench.ErrOpTime) {
			t.Errorf("a step that hangs: %v", err)
		}
		t.Log(err)

		left := e.left(t, e.run)
		if len(left) == 0 {
			t.Error("what is left is not found")
		}
		for _, l := range left {
			if err := e.cleaner.RemoveLeftover(t.Context(), l); err != nil {
				t.Errorf("%v: %v", l, err)
			}
		}
		if err := e.RemoveBuild(t.Context(), b); err != nil {
			t.Error(err)
		}
		if left := e.left(t, e.run); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
	})
}

// If podman is killed, the process of a step goes on. It is found and ended with what else is left.
func TestKilledPodman(t *testing.T) {
	e, other := open(t, "podman"), open(t, "podman") // their images have the same content
	if err := errors.Join(other.Prepare(t.Context(), bench.Spec{}), e.Prepare(t.Context(), bench.Spec{})); err != nil {
		t.Fatal(err)
	}
	b := file(t, e.run, "RUN [\""+agent.Path+"\", \"hold\"]\n")
	cmd := bare(e, b)
	out, err := cmd.StdoutPipe()
	if err := errors.Join(err, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() && lines.Text() != "ready" {
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	left := e.left(t, e.run)
	runs := 0
	for _, l := range left {
		runs += inside(t, l.ID)
	}
	if runs == 0 {
		t.Fatal("no process is in what is left, so this test shows nothing")
	}
	for _, l := range e.left(t, other.run) {
		if l.Kind == "container" {
			t.Errorf("%s is told to be of another run", l.ID)
		}
	}
	for _, l := range left {
		if err := e.cleaner.RemoveLeftover(t.Context(), l); err != nil {
			t.Errorf("%v: %v", l, err)
		}
	}
	for _, l := range left {
		if n := inside(t, l.ID); n > 0 {
			t.Errorf("%d processes still run in %s", n, l.ID)
		}
	}
	if left := e.left(t, e.run); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// inside counts the processes that run in a working container.
func inside(t *testing.T, id string) (n int) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/root/run/.containerenv")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		text, _ := os.ReadFile(name) // empty if the process has ended
		if strings.Contains(string(text), "\nid=\""+id+"\"\n") {
			n++
		}
	}
	return n
}

// BenchmarkOverhead compares a build through tare with the bare command, of which nobody reads the output.
// Both build without a cache, alternately, and what they make is removed in between.
func BenchmarkOverhead(b *testing.B) {
	for _, x := range builders {
		b.Run(strings.Trim(x.engine+" "+x.builder, " "), func(b *testing.B) {
			e := open(b, x.engine)
			spec := file(b, e.run, "COPY . /context/\n")
			spec.Builder = x.builder
			if _, err := e.BuildTool(b.Context(), x.builder); errors.Is(err, bench.ErrUnsupported) {
				b.Skip(err)
			}
			if err := e.Prepare(b.Context(), bench.Spec{}); err != nil {
				b.Fatal(err)
			}
			clock := run.Monotonic()
			side := func(op func() error) func(b *testing.B) time.Duration {
				return func(b *testing.B) time.Duration {
					took := enginetest.Time(b, op)
					if err := e.RemoveBuild(b.Context(), spec); err != nil {
						b.Fatal(err)
					}
					return took
				}
			}
			enginetest.Overhead(b, side(func() error {
				_, err := e.Build(b.Context(), spec, clock)
				return err
			}), side(func() error { return bare(e, spec).Run() }))
		})
	}
}

// bare is the command that a user would type.
func bare(e opened, spec bench.Build) *exec.Cmd {
	name := "tare.local/" + e.run + "/" + e.Name()
	cmd := exec.Command(e.Name(), "build", "--tag", name+"/build:latest", "--file", spec.File, "--no-cache",
		"--build-arg", bench.BuildBase+"="+name+"/agent:latest", spec.Context)
	cmd.Env = append(os.Environ(), "DOCKER_BUILDKIT=0")
	if spec.Builder == bench.BuilderKit {
		cmd.Env = append(os.Environ(), "DOCKER_BUILDKIT=1")
	}
	return cmd
}
