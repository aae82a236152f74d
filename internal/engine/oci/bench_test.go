package oci_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/tare-bench/tare/internal/agent"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/enginetest"
	"github.com/tare-bench/tare/internal/engine/oci"
	"github.com/tare-bench/tare/internal/image/imagetest"
)

// BenchmarkOverhead compares create, start and delete through the driver with
// a bare loop that executes the same commands on the same kind of bundle. What
// lies between them is not the runtime's, and is timed on neither side.
func BenchmarkOverhead(b *testing.B) {
	for _, name := range []string{"runc", "crun"} {
		b.Run(name, func(b *testing.B) { overhead(b, name) })
	}
}

func overhead(b *testing.B, name string) {
	env := enginetest.NewEnv(b, imagetest.Library(b))
	e := oci.New(oci.Config{Name: name, Run: env.Run, Dir: env.Dir, Images: env.Images})
	enginetest.Use(b, e)
	enginetest.Overhead(b, driven(e), newBare(b, e, env, name).run)
}

func task() bench.Spec { return bench.Spec{Argv: []string{agent.Path, "exit", "0"}} }

// driven is the driver's side.
func driven(e bench.Engine) func(b *testing.B) time.Duration {
	return func(b *testing.B) time.Duration {
		b.Helper()
		ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
		defer cancel()
		untimed := func(err error) {
			if err != nil {
				b.Fatal(err)
			}
		}
		untimed(e.Prepare(ctx, task()))
		runtime.GC()
		var c bench.Container
		took := enginetest.Time(b, func() (err error) { c, err = e.Create(ctx, task()); return err })
		_, err := c.Inspect(ctx)
		untimed(errors.Join(err, c.Attach(ctx, nil, nil)))
		took += enginetest.Time(b, func() error { return c.Start(ctx) })
		_, err = c.Wait(ctx)
		untimed(err)
		took += enginetest.Time(b, func() error { return c.Remove(ctx) })
		untimed(c.Remove(ctx))
		return took
	}
}

// A bareLoop runs a runtime's commands with nothing around them.
type bareLoop struct {
	binary, dir, base string
	spec              specs.Spec
}

// newBare takes config.json from a bundle that the engine prepared.
func newBare(b *testing.B, e bench.Engine, env enginetest.Env, name string) *bareLoop {
	b.Helper()
	if err := e.Prepare(b.Context(), task()); err != nil {
		b.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(env.Dir, "oci-"+name, "1", "config.json"))
	if err != nil {
		b.Fatal(err)
	}
	img, err := env.Images.Resolve(b.Context(), "")
	if err != nil {
		b.Fatal(err)
	}
	l := &bareLoop{dir: b.TempDir()}
	if l.base, err = img.Rootfs(b.Context()); err != nil {
		b.Fatal(err)
	}
	if l.binary, err = exec.LookPath(name); err != nil {
		b.Fatal(err)
	}
	if err := json.Unmarshal(text, &l.spec); err != nil {
		b.Fatal(err)
	}
	l.spec.Linux.CgroupsPath = "/tare/" + env.Run + "/bare"
	return l
}

// run takes one container through its life and returns how long the three
// commands took.
func (l *bareLoop) run(b *testing.B) time.Duration {
	b.Helper()
	dir := filepath.Join(l.dir, "bundle")
	l.stage(b, dir)
	runtime.GC()
	command := func(args ...string) time.Duration {
		args = append([]string{"--root", l.dir + "/state", "--log", dir + "/log", "--log-format", "json"}, args...)
		return enginetest.Time(b, exec.Command(l.binary, append(args, "bare")...).Run)
	}
	took := command("create", "--bundle", dir, "--pid-file", dir+"/pid")
	text, err := os.ReadFile(dir + "/pid")
	if err != nil {
		b.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		b.Fatal(err)
	}
	took += command("start")
	if _, err := unix.Wait4(pid, nil, 0, nil); err != nil {
		b.Fatal(err)
	}
	took += command("delete")
	if err := unix.Unmount(dir+"/rootfs", 0); err != nil {
		b.Fatal(err)
	}
	return took
}

func (l *bareLoop) stage(b *testing.B, dir string) {
	b.Helper()
	if err := os.RemoveAll(dir); err != nil {
		b.Fatal(err)
	}
	for _, name := range []string{"", "rootfs", "upper", "work"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			b.Fatal(err)
		}
	}
	options := "lowerdir=" + l.base + ",upperdir=" + dir + "/upper,workdir=" + dir + "/work"
	if err := unix.Mount("overlay", dir+"/rootfs", "overlay", 0, options); err != nil {
		b.Fatal(err)
	}
	l.spec.Root.Path = dir + "/rootfs"
	text, err := json.Marshal(l.spec)
	if err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(dir+"/config.json", text, 0o600); err != nil {
		b.Fatal(err)
	}
}
