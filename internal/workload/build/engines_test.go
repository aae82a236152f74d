package build_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tare-bench/tare/internal/agent"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/containerd"
	"github.com/tare-bench/tare/internal/engine/docker"
	"github.com/tare-bench/tare/internal/engine/enginetest"
	"github.com/tare-bench/tare/internal/engine/podman"
	"github.com/tare-bench/tare/internal/image/imagetest"
	"github.com/tare-bench/tare/internal/kernel/proc"
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
	switch name {
	case "podman":
		e := podman.New(podman.Config{Name: name, Run: s.Run, Dir: s.Dir, Images: s.Images})
		enginetest.Use(t, e)
		return opened{e, e, e, s.Run}
	case "containerd":
		e := containerd.New(containerd.Config{Name: name, Run: s.Run, Dir: s.Dir, Images: s.Images})
		enginetest.Use(t, e)
		return opened{e, e, e, s.Run}
	}
	e := docker.New(docker.Config{Name: name, Run: s.Run, Dir: s.Dir, Images: s.Images})
	enginetest.Use(t, e)
	return opened{e, e, e, s.Run}
}

// left lists what builds of a run have left; not their base image, which stays until Close.
func (o opened) left(t *testing.T, run string) (left []bench.Leftover) {
	t.Helper()
	base := o.baseRecords(t)
	for _, l := range o.leftovers(t, run) {
		if l.Kind == "cache" && !base[l.ID] || l.Kind == "container" || l.Kind == "data" ||
			l.Kind == "image" && !strings.HasSuffix(l.ID, "/agent:latest") {
			left = append(left, l)
		}
	}
	return left
}

func (o opened) leftovers(t *testing.T, run string) []bench.Leftover {
	t.Helper()
	all, err := o.cleaner.Leftovers(t.Context(), func(r string) bool { return r == run })
	if err != nil && (o.Name() != "podman" || len(all) == 0) { // half an image hides all others until it has gone
		t.Fatal(err)
	}
	return all
}

// baseRecords are the IDs of the records without a description that buildkitd has, and does not use.
func (o opened) baseRecords(t *testing.T) map[string]bool {
	t.Helper()
	if o.Name() != "containerd" {
		return nil
	}
	const format = `{{range .}}{{if not (or .Description .InUse)}}{{.ID}} {{end}}{{end}}`
	told, err := exec.CommandContext(t.Context(), "buildctl", "du", "--format", format).Output()
	if err != nil {
		t.Fatal(err)
	}
	ids := map[string]bool{}
	for id := range strings.FieldsSeq(string(told)) {
		ids[id] = true
	}
	return ids
}

var builders = []struct{ engine, builder string }{
	{"docker", bench.BuilderClassic}, {"docker", bench.BuilderKit}, {"podman", ""}, {"containerd", bench.BuilderKit},
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
		others := e.baseRecords(t)
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
		if err := e.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if left := e.leftovers(t, e.run); len(left) > 0 {
			t.Errorf("left after Close: %v", left)
		}
		for id := range e.baseRecords(t) {
			if !others[id] {
				t.Errorf("record %s of the base image is left", id)
			}
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

		b = file(t, e.run, "RUN [\""+agent.Path+"\", \"alloc\", \""+held+"\"]\n")
		b.Builder = builder
		byTrial := func() {
			if err := e.RemoveBuild(t.Context(), b); err != nil {
				t.Error(err)
			}
		}
		left := e.hangs(t, b)
		wantGone(t, e, left, func() { e.removes(t, left); byTrial() })
		if e.Name() == "podman" { // which leaves more than the others
			wantGone(t, e, e.hangs(t, b), byTrial)
		}
	})
}

// held is how many bytes the step of a build holds that hangs: it is known by that.
var held = strconv.Itoa(4096 + rand.IntN(1<<20))

// isHolding reports whether a process is that of a step that hangs.
func isHolding(pid int) bool {
	args := proc.Args(pid)
	return slices.Contains(args, "alloc") && slices.Contains(args, held)
}

// hangs builds until the time is up, a moment after the step began, and returns what that leaves.
func (o opened) hangs(t *testing.T, b bench.Build) []bench.Leftover {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	go func() {
		const most, every, moment = time.Minute, 20 * time.Millisecond, 500 * time.Millisecond
		for began := time.Now(); time.Since(began) < most; time.Sleep(every) {
			all, err := proc.All("/")
			if err != nil || slices.ContainsFunc(all, func(p proc.Process) bool { return isHolding(p.PID) }) {
				break
			}
		}
		time.Sleep(moment)
		cancel(bench.ErrOpTime)
	}()
	_, err := o.Build(ctx, b, run.Monotonic())
	if !errors.Is(err, bench.ErrOpTime) {
		t.Errorf("a step that hangs: %v", err)
	}
	t.Log(err)
	left := o.left(t, o.run)
	if len(left) == 0 {
		t.Error("what is left is not found")
	}
	return left
}

// wantGone wants nothing of what is left, once it was removed.
func wantGone(t *testing.T, o opened, left []bench.Leftover, remove func()) {
	t.Helper()
	kept := bundlesOf(t, left)
	if o.Name() == "podman" && len(kept.files()) == 0 {
		t.Error("there is no bundle, so this test shows nothing of it")
	}
	remove()
	if files := kept.files(); len(files) > 0 {
		t.Errorf("left: %q", files)
	}
	for _, l := range left {
		if n := inside(t, l.ID); n > 0 {
			t.Errorf("%d processes still run in %s", n, l.ID)
		}
	}
	for _, l := range o.left(t, o.run) {
		if files, _ := os.ReadDir(filepath.Join(l.ID, "data")); l.Kind != "data" || len(files) > 0 { // empty until Close
			t.Errorf("left: %v", l)
		}
	}
}

// removes removes what is left, as clean does.
func (o opened) removes(t *testing.T, left []bench.Leftover) {
	t.Helper()
	for _, l := range left {
		if err := o.cleaner.RemoveLeftover(t.Context(), l); err != nil {
			t.Errorf("%v: %v", l, err)
		}
	}
}

// bundles are the names of directories that podman's builds have left among their temporary files.
type bundles []string

func bundlesOf(t *testing.T, left []bench.Leftover) (names bundles) {
	t.Helper()
	for _, l := range left {
		if l.Kind != "data" {
			continue
		}
		entries, err := os.ReadDir(filepath.Join(l.ID, "data"))
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range entries {
			names = append(names, entry.Name())
		}
	}
	return names
}

// files are what there is of them on this machine: directories, states of runtimes, control groups.
func (b bundles) files() (all []string) {
	for _, name := range b {
		for _, pattern := range []string{
			"/var/tmp/" + name, "/var/tmp/*/data/" + name, "/run/*/buildah-" + name,
			"/sys/fs/cgroup/buildah-" + name, "/sys/fs/cgroup/*/buildah-" + name,
		} {
			found, _ := filepath.Glob(pattern) // it is well formed
			all = append(all, found...)
		}
	}
	return all
}

// If podman is killed, the process of a step goes on. It is found and ended with what else is left.
func TestKilledPodman(t *testing.T) {
	e, other := open(t, "podman"), open(t, "podman") // their images have the same content
	if err := errors.Join(other.Prepare(t.Context(), bench.Spec{}), e.Prepare(t.Context(), bench.Spec{})); err != nil {
		t.Fatal(err)
	}
	b := file(t, e.run, "RUN [\""+agent.Path+"\", \"alloc\", \""+held+"\"]\n")
	built := make(chan error, 1)
	go func() {
		_, err := e.Build(t.Context(), b, run.Monotonic())
		built <- err
	}()
	// If podman dies while the process begins, podman's helper ends it: so it has to be there for a while.
	const often = 5
	seen := 0
	for end := time.Now().Add(time.Minute); seen < often; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("no process stays in what is left, so this test shows nothing")
		}
		if seen++; e.running(t) == 0 {
			seen = 0
		}
	}
	killPodman(t, b.File)
	if err := <-built; err == nil {
		t.Fatal("podman was not killed")
	}
	if e.running(t) == 0 {
		t.Fatal("no process is in what is left, so this test shows nothing")
	}
	for _, l := range e.left(t, other.run) {
		if l.Kind == "container" {
			t.Errorf("%s is told to be of another run", l.ID)
		}
	}
	left := e.left(t, e.run)
	wantGone(t, e, left, func() { e.removes(t, left) })
}

// running counts the processes in the working containers of the engine's run.
func (o opened) running(t *testing.T) (n int) {
	t.Helper()
	for _, l := range o.left(t, o.run) {
		n += inside(t, l.ID)
	}
	return n
}

// killPodman kills the podman that builds of that file.
func killPodman(t *testing.T, file string) {
	t.Helper()
	all, err := proc.All("/")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		if args := proc.Args(p.PID); len(args) > 0 && args[0] == "podman" && slices.Contains(args, file) {
			if err := syscall.Kill(p.PID, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// inside counts the processes that hold in a working container.
func inside(t *testing.T, id string) (n int) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/root/run/.containerenv")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		text, _ := os.ReadFile(name)                        // empty if the process has ended
		pid, _ := strconv.Atoi(strings.Split(name, "/")[2]) // a number, as in the pattern
		if strings.Contains(string(text), "\nid=\""+id+"\"\n") && isHolding(pid) {
			n++
		}
	}
	return n
}

// BenchmarkOverhead compares a build through tare with the bare command, of which nobody reads the output: alternately,
// of a context of 16 MiB in 64 files. Without a cache, what they make is removed in between; a rebuild finds all in it.
func BenchmarkOverhead(b *testing.B) {
	for _, x := range builders {
		for _, cached := range []bool{false, true} {
			name := strings.Trim(x.engine+" "+x.builder, " ")
			if cached {
				name += " rebuild"
			}
			b.Run(name, func(b *testing.B) { overhead(b, x.engine, x.builder, cached) })
		}
	}
}

func overhead(b *testing.B, engine, builder string, cached bool) {
	b.Helper()
	e := open(b, engine)
	spec := file(b, e.run, "COPY . /context/\n")
	spec.Builder = builder
	for i := range 64 {
		name := filepath.Join(spec.Context, strconv.Itoa(i))
		if err := os.WriteFile(name, bytes.Repeat([]byte{byte(i)}, 256<<10), 0o644); err != nil {
			b.Fatal(err)
		}
	}
	if _, err := e.BuildTool(b.Context(), builder); errors.Is(err, bench.ErrUnsupported) {
		b.Skip(err)
	}
	if err := e.Prepare(b.Context(), bench.Spec{}); err != nil {
		b.Fatal(err)
	}
	clock := run.Monotonic()
	build := func() error {
		_, err := e.Build(b.Context(), spec, clock)
		return err
	}
	if cached { // the first build fills the cache
		if err := build(); err != nil {
			b.Fatal(err)
		}
		spec.Cached = true
	}
	remove := func() {
		if err := e.RemoveBuild(context.WithoutCancel(b.Context()), spec); err != nil {
			b.Fatal(err)
		}
	}
	side := func(op func() error) func(b *testing.B) time.Duration {
		return func(b *testing.B) time.Duration {
			took := enginetest.Time(b, op)
			if !cached {
				remove()
			}
			return took
		}
	}
	enginetest.Overhead(b, side(build), side(func() error { return bare(e, spec).Run() }))
	if cached {
		remove()
	}
}

// bare is the command that a user would type.
func bare(e opened, spec bench.Build) *exec.Cmd {
	name := "tare.local/" + e.run + "/" + e.Name()
	if e.Name() == "containerd" { // whose copy of the build file has a name of the build's own, too, so as to be removed
		file := spec.Mark + "/file"
		argv := []string{
			"build", "--frontend", "dockerfile.v0",
			"--local", "context=" + spec.Context, "--local", file + "=" + filepath.Dir(spec.File), "--opt", "dockerfilekey=" + file,
			"--opt", "image-resolve-mode=local",
			"--opt", "build-arg:" + bench.BuildBase + "=" + name + "/agent:latest", "--output", "type=image,name=" + name + "/build:latest",
		}
		if !spec.Cached {
			argv = append(argv, "--no-cache")
		}
		return exec.Command("buildctl", argv...)
	}
	argv := []string{
		"build", "--tag", name + "/build:latest", "--file", spec.File,
		"--build-arg", bench.BuildBase + "=" + name + "/agent:latest",
	}
	if !spec.Cached {
		argv = append(argv, "--no-cache")
	}
	cmd := exec.Command(e.Name(), append(argv, spec.Context)...)
	cmd.Env = append(os.Environ(), "DOCKER_BUILDKIT=0")
	if spec.Builder == bench.BuilderKit {
		cmd.Env = append(os.Environ(), "DOCKER_BUILDKIT=1")
	}
	return cmd
}
