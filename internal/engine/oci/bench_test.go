package oci_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
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
// a bare loop that executes the same commands on the same kind of bundle. One
// iteration is one container each way, in alternating order; "ratio" is the
// median of the driver's times over the median of the bare ones.
func BenchmarkOverhead(b *testing.B) {
	for _, name := range []string{"runc", "crun"} {
		b.Run(name, func(b *testing.B) { overhead(b, name) })
	}
}

func overhead(b *testing.B, name string) {
	site := enginetest.NewSite(b, imagetest.Library(b))
	e := oci.New(oci.Config{Name: name, Run: site.Run, Dir: site.Dir, Images: site.Images})
	_, err := e.Probe(b.Context())
	enginetest.Require(b, name, err)
	b.Cleanup(func() {
		if err := e.Close(context.Background()); err != nil {
			b.Error(err)
		}
	})
	bare := newBare(b, e, site, name)
	var driven, plain []float64
	for n := 0; b.Loop(); n++ {
		if n%2 == 0 {
			driven = append(driven, drive(b, e))
			plain = append(plain, bare.run(b))
		} else {
			plain = append(plain, bare.run(b))
			driven = append(driven, drive(b, e))
		}
	}
	b.ReportMetric(median(driven)*1e3, "driver-ms")
	b.ReportMetric(median(plain)*1e3, "bare-ms")
	b.ReportMetric(median(driven)/median(plain), "ratio")
}

func median(x []float64) float64 {
	x = slices.Sorted(slices.Values(x))
	return (x[len(x)/2] + x[(len(x)-1)/2]) / 2
}

func task() bench.Spec { return bench.Spec{Argv: []string{agent.Path, "exit", "0"}} }

// drive takes one container through the driver and returns the seconds that
// Create, Start and Remove took.
func drive(b *testing.B, e bench.Engine) float64 {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
	defer cancel()
	if err := e.Prepare(ctx, task()); err != nil {
		b.Fatal(err)
	}
	runtime.GC()
	var c bench.Container
	total := seconds(b, func() (err error) { c, err = e.Create(ctx, task()); return err })
	if _, err := c.Inspect(ctx); err != nil {
		b.Fatal(err)
	}
	if err := c.Attach(ctx, nil, nil); err != nil {
		b.Fatal(err)
	}
	total += seconds(b, func() error { return c.Start(ctx) })
	if _, err := c.Wait(ctx); err != nil {
		b.Fatal(err)
	}
	total += seconds(b, func() error { return c.Remove(ctx) })
	if err := c.Remove(ctx); err != nil {
		b.Fatal(err)
	}
	return total
}

func seconds(b *testing.B, op func() error) float64 {
	b.Helper()
	begin := time.Now()
	err := op()
	took := time.Since(begin)
	if err != nil {
		b.Fatal(err)
	}
	return took.Seconds()
}

// A bareLoop runs a runtime's commands with nothing around them.
type bareLoop struct {
	binary, dir, base string
	spec              specs.Spec
}

// newBare takes config.json from a bundle that the engine prepared.
func newBare(b *testing.B, e bench.Engine, site enginetest.Site, name string) *bareLoop {
	b.Helper()
	if err := e.Prepare(b.Context(), task()); err != nil {
		b.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(site.Dir, "oci-"+name, "1", "config.json"))
	if err != nil {
		b.Fatal(err)
	}
	img, err := site.Images.Resolve(b.Context(), "")
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
	l.spec.Linux.CgroupsPath = "/tare/" + site.Run + "/bare"
	return l
}

// run takes one container through its life and returns the seconds that the
// three commands took.
func (l *bareLoop) run(b *testing.B) float64 {
	b.Helper()
	dir := filepath.Join(l.dir, "bundle")
	l.stage(b, dir)
	runtime.GC()
	command := func(args ...string) float64 {
		args = append([]string{"--root", l.dir + "/state", "--log", dir + "/log", "--log-format", "json"}, args...)
		return seconds(b, exec.Command(l.binary, append(args, "bare")...).Run)
	}
	total := command("create", "--bundle", dir, "--pid-file", dir+"/pid")
	text, err := os.ReadFile(dir + "/pid")
	if err != nil {
		b.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		b.Fatal(err)
	}
	total += command("start")
	if _, err := unix.Wait4(pid, nil, 0, nil); err != nil {
		b.Fatal(err)
	}
	total += command("delete")
	if err := unix.Unmount(dir+"/rootfs", 0); err != nil {
		b.Fatal(err)
	}
	return total
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
