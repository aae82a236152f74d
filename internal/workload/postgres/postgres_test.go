package postgres_test

import (
	"context"
	"errors"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/docker"
	"github.com/tare-bench/tare/internal/engine/enginetest"
	"github.com/tare-bench/tare/internal/engine/floor"
	"github.com/tare-bench/tare/internal/engine/oci"
	"github.com/tare-bench/tare/internal/image"
	"github.com/tare-bench/tare/internal/image/imagetest"
	"github.com/tare-bench/tare/internal/workload/localtest"
	"github.com/tare-bench/tare/internal/workload/postgres"
	"github.com/tare-bench/tare/internal/workload/workloadtest"
)

// needServer ends the test if this host has no PostgreSQL.
func needServer(t testing.TB) {
	t.Helper()
	if _, err := postgres.SharedLibrary(t).Resolve(t.Context(), "host:postgres"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skipf("install postgresql to test with it: %v", err)
	}
}

// workload is what is tested. In the short form, its runs share clusters: see postgres.NewShared.
func workload(t testing.TB) bench.Workload {
	t.Helper()
	if testing.Short() {
		return postgres.NewShared(t)
	}
	return postgres.New(func(dir string) *image.Library {
		return image.NewLibrary(dir, image.WithAgent(imagetest.Agent(t)))
	})
}

// engine opens an engine that is to be tested here.
func engine(t testing.TB, name string) bench.Engine {
	t.Helper()
	needServer(t)
	if name == "native" {
		return localtest.Native(t)
	}
	env := enginetest.NewEnv(t, postgres.SharedLibrary(t))
	var e bench.Engine
	switch name {
	case "floor":
		e = floor.New(floor.Config{Name: name, Run: env.Run, Dir: env.Dir, Images: env.Images})
	case "runc":
		e = oci.New(oci.Config{Name: name, Run: env.Run, Dir: env.Dir, Images: env.Images, Binary: name})
	case "docker":
		e = docker.New(docker.Config{Name: name, Run: env.Run, Dir: env.Dir, Images: env.Images})
	}
	enginetest.Use(t, e)
	return e
}

// measure runs trials of one cell in a short form.
func measure(t testing.TB, e bench.Engine, spec bench.Spec, n int, options ...string) []bench.Sample {
	t.Helper()
	return measureAs(t, workload(t), e, spec, n, options...)
}

// measureAs is measure of a workload that is not as usual.
func measureAs(
	t testing.TB, w bench.Workload, e bench.Engine, spec bench.Spec, n int, options ...string,
) []bench.Sample {
	t.Helper()
	return workloadtest.Trials{
		Workload: w, Engine: e, Client: localtest.Native(t), Spec: spec, Params: params(w, options...), N: n,
	}.Run(t)
}

// params are the options of a short form, and those that are given.
func params(w bench.Workload, options ...string) map[string]string {
	short := map[string]string{
		"scale": "1", "clients": "2", "time": "150ms", "write_time": "600ms", "warmup": "20ms", "shared_buffers": "64MB",
	}
	if testing.Short() {
		short["time"], short["write_time"] = "300ms", "500ms" // a busy machine, or its disk, can stand still for half of that
	}
	for i := 0; i < len(options); i += 2 {
		short[options[i]] = options[i+1]
	}
	all := map[string]string{}
	for _, p := range w.Params() {
		all[p.Name] = p.Default
	}
	maps.Copy(all, short)
	return all
}

// good holds samples to have succeeded in all parts, and to have been applied the same. It returns the
// values of the last one.
func good(t *testing.T, samples []bench.Sample) map[string]float64 {
	t.Helper()
	for _, s := range samples {
		if s.Outcome != bench.OK || len(s.Parts) > 0 {
			t.Fatalf("%s: %s %s; parts %v", s.Outcome, s.Operation, s.Reason, s.Parts)
		}
	}
	last := samples[len(samples)-1]
	if diff := cmp.Diff(samples[0].Applied, last.Applied); diff != "" {
		t.Errorf("applied to the last one (-first +last):\n%s", diff)
	}
	return workloadtest.Values(workload(t), last)
}

// above wants values above zero.
func above(t *testing.T, values map[string]float64, metrics ...string) {
	t.Helper()
	for _, name := range metrics {
		if !(values[name] > 0) {
			t.Errorf("%s = %v", name, values[name])
		}
	}
}

// Every engine gives every part its values.
func TestParts(t *testing.T) {
	trials := 2
	if testing.Short() {
		trials = 1
	}
	for _, name := range []string{"native", "runc", "floor"} {
		t.Run(name, func(t *testing.T) {
			parts := []string{"read1", "read", "write1", "write"}
			if testing.Short() && name != "native" {
				parts = parts[:3]
			}
			samples := measure(t, engine(t, name), bench.Spec{Network: "host"}, trials, "clients", "1", "parts",
				strings.Join(parts, ","))
			v := good(t, samples)
			for _, fact := range []string{"version", "program", "collation", "checksums", "CPUs", "fsync", "encrypted"} {
				if samples[0].Applied.Facts[fact] == "" {
					t.Errorf("the trial does not keep %s: %v", fact, samples[0].Applied.Facts)
				}
			}
			for _, part := range parts {
				above(t, v, part+".rate", part+".time.p50", part+".transactions", part+".hit_ratio", part+".memory_load",
					part+".connect.p50", part+".inside.waits", part+".server.switches")
				if v[part+".failed"] != 0 || v[part+".checkpoints"] != 0 || v[part+".temp_bytes"] != 0 {
					t.Errorf("%s: %v failed, %v checkpoints, %v bytes of temporary files", part, v[part+".failed"],
						v[part+".checkpoints"], v[part+".temp_bytes"])
				}
			}
			above(t, v, "postgres.ready", "postgres.copy", "postgres.memory_rest", "write1.server.wal",
				"write1.server.full_pages", "write1.server.syncs", "write1.stmt.end.p50", "write1.stmt.update_branches.p50")
			if v["read.server.reads"] != 0 {
				t.Errorf("%v pages were read for each select; they were warm", v["read.server.reads"])
			}
		})
	}
}

// A server in a container is reached by every network, and keeps its data on every storage.
func TestWays(t *testing.T) {
	ways := []bench.Spec{{Network: "bridge", Reach: bench.ReachPeer, Storage: "volume"}}
	if !testing.Short() {
		for _, reach := range []string{"", bench.ReachPublished, bench.ReachSocket} {
			ways = append(ways, bench.Spec{Network: "bridge", Reach: reach, Storage: "volume"})
		}
		for _, storage := range []string{"layer", "bind", "tmpfs"} {
			ways = append(ways, bench.Spec{Network: "bridge", Storage: storage})
		}
	}
	e := engine(t, "docker")
	for _, spec := range ways {
		t.Run(strings.Trim(spec.Reach+" "+spec.Storage, " "), func(t *testing.T) {
			v := good(t, measure(t, e, spec, 1, "clients", "1", "parts", "read1,write1"))
			above(t, v, "read1.rate", "read1.time.p50", "write1.rate", "write1.server.wal")
		})
	}
}

// A watched engine keeps the arguments of what it makes.
type watched struct {
	bench.Engine
	made [][]string
}

// Unwrap is for bench.As.
func (e *watched) Unwrap() bench.Engine { return e.Engine }

// Create implements bench.Engine.
func (e *watched) Create(ctx context.Context, spec bench.Spec) (bench.Container, error) {
	e.made = append(e.made, spec.Argv)
	return e.Engine.Create(ctx, spec)
}

// Clients with TLS and without are the same program, have the same keys in the same block, and leave the same to be
// counted.
func TestClients(t *testing.T) {
	e := engine(t, "native")
	programs, seeds := map[string]bool{}, map[string]bool{}
	for _, ssl := range []string{"no", "yes"} {
		w, client := workload(t), &watched{Engine: localtest.Native(t)}
		v := good(t, workloadtest.Trials{
			Workload: w, Engine: e, Client: client, Params: params(w, "parts", "read1", "ssl", ssl),
		}.Run(t))
		above(t, v, "read1.rate", "read1.connect.p50", "read1.inside.waits", "read1.server.switches", "read1.memory_load",
			"read1.trial.measured")
		for _, argv := range client.made {
			if slices.ContainsFunc(argv, func(word string) bool { return strings.HasPrefix(word, "password=") }) {
				t.Errorf("every user of this host can read the password: %q", argv)
			}
			if i := slices.IndexFunc(argv, func(word string) bool { return strings.HasPrefix(word, "seed=") }); i > 0 {
				programs[argv[0]], seeds[argv[i]] = true, true
			}
		}
	}
	if len(programs) != 1 || len(seeds) != 1 {
		t.Errorf("the clients are %v with %v, want one program and one seed", programs, seeds)
	}
}

// A Unix socket works where there is no network at all.
func TestSocket(t *testing.T) {
	parts := []string{"read1", "write1"}
	if testing.Short() {
		parts = parts[:1]
	}
	for _, name := range []string{"native", "runc"} {
		t.Run(name, func(t *testing.T) {
			samples := measure(t, engine(t, name), bench.Spec{Reach: bench.ReachSocket}, 1, "parts", strings.Join(parts, ","))
			v := good(t, samples)
			for _, part := range parts {
				above(t, v, part+".rate")
			}
			if diff := cmp.Diff([]string{"unix socket"}, samples[0].Applied.Path); diff != "" {
				t.Errorf("path (-want +got):\n%s", diff)
			}
		})
	}
}

// What a setting changes is seen in what the server counts.
func TestSettingsHaveEffects(t *testing.T) {
	e := engine(t, "native")
	counted := func(options ...string) (syncs, pages float64) {
		v := good(t, measure(t, e, bench.Spec{}, 1, append(options, "parts", "write1")...))
		return v["write1.server.syncs"], v["write1.server.full_pages"]
	}
	if syncs, pages := counted(); syncs < 0.9 || pages <= 0 {
		t.Errorf("by default: %v syncs and %v full pages", syncs, pages)
	}
	if syncs, _ := counted("fsync", "off"); syncs != 0 {
		t.Errorf("fsync=off: %v syncs", syncs)
	}
	if testing.Short() {
		return
	}
	if syncs, _ := counted("commit", "off"); syncs > 0.5 {
		t.Errorf("commit=off: %v syncs", syncs)
	}
	if _, pages := counted("full_page_writes", "off"); pages != 0 {
		t.Errorf("full_page_writes=off: %v full pages", pages)
	}
}

// The other options of the load reach it.
func TestLoad(t *testing.T) {
	e := engine(t, "native")
	v := good(t, measure(t, e, bench.Spec{}, 1, "parts", "load", "script", "simple-update", "rate", "50%", "set",
		"work_mem=8MB,jit=on", "pin", "no", "cache", "cold", "settings", "server"))
	above(t, v, "load.rate", "load.offered", "load.stmt.insert_history.p50", "load.server.sync_time")
	v = good(t, measure(t, e, bench.Spec{}, 1, "parts", "read", "sweep", "1,2"))
	above(t, v, "read.rate.c1", "read.rate.c2", "read.time.p50.c2", "read.client_cpu.c1", "read.server.cpu", "read.knee")
	for _, name := range []string{"read.server.switches", "read.server.switches.c1", "read.server.switches.c2"} {
		if n := v[name]; n < 0.5 || n > 20 { // a process of the server waits for each statement
			t.Errorf("%s is %v for each transaction, want about 1", name, n)
		}
	}
	if memory, known := v["read.memory_load"]; known {
		t.Errorf("a sweep, whose clients have gone, has memory under load: %v", memory)
	}
	v = good(t, measure(t, e, bench.Spec{}, 1, "parts", "read1", "connect", "each"))
	above(t, v, "read1.rate", "read1.connect.p50")
	if n, known := v["read1.server.switches"]; known {
		t.Errorf("the processes that have served have ended, and had %v context switches", n)
	}
	if testing.Short() {
		return
	}
	for _, script := range []string{"insert", "update"} {
		v = good(t, measure(t, e, bench.Spec{}, 1, "parts", "load", "script", script))
		above(t, v, "load.rate", "load.server.wal")
	}
	toldBySeconds(t, e)
}

// pgbench does what the built-in clients do, and runs scripts of its own language.
func TestTool(t *testing.T) {
	e := engine(t, "native")
	script := filepath.Join(t.TempDir(), "insert.sql")
	text := "\\set aid random(1, 100000 * :scale)\n" +
		"DELETE FROM pgbench_history WHERE delta <> 1;\n" + // of the part before, which was looked at before
		"INSERT INTO pgbench_history (tid, bid, aid, delta) VALUES (1, 1, :aid, 1);\n"
	if err := os.WriteFile(script, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	samples := measure(t, e, bench.Spec{}, 1, "tool", "pgbench", "parts", "write1,load", "script", script)
	v := good(t, samples)
	for _, fact := range []string{"pgbench", "pgbench version", "script"} {
		if samples[0].Applied == nil || samples[0].Applied.Facts[fact] == "" {
			t.Errorf("%s is not among what was applied: %+v", fact, samples[0].Applied)
		}
	}
	above(t, v, "write1.rate", "write1.time.p50", "write1.server.syncs", "load.rate", "load.server.wal", "load.client_cpu")
	if busy := v["load.client_cpu"]; busy > 1.05 {
		t.Errorf("pgbench used %v of the CPU time that it could have", busy)
	}
	if testing.Short() {
		return
	}
	v = good(t, measure(t, e, bench.Spec{Reach: bench.ReachSocket}, 1, "tool", "pgbench", "parts", "read,load", "rate",
		"200", "connect", "each"))
	above(t, v, "read.rate", "load.rate", "load.offered")
	missing := measure(t, e, bench.Spec{}, 1, "tool", "pgbench", "parts", "load", "script", script+"-not")[0]
	if missing.Outcome == bench.OK || !strings.Contains(missing.Reason, "option script") {
		t.Errorf("a script that is not there: %s %s", missing.Outcome, missing.Reason)
	}
}

// toldBySeconds wants a long part to be told second by second, with its checkpoints.
func toldBySeconds(t *testing.T, e bench.Engine) {
	t.Helper()
	s := measure(t, e, bench.Spec{}, 1, "parts", "write", "clients", "4", "write_time", "4s", "set",
		"max_wal_size=32MB", "settings", "server")
	checkpoints := good(t, s)["write.checkpoints"]
	series := map[string][]float64{}
	for _, one := range s[0].Series {
		series[one.Metric] = one.Values
	}
	for _, name := range []string{"rate", "time.p50", "time.p99", "time.mean", "time.max"} {
		if got := series["write.per_second."+name]; len(got) != 4 || name != "time.p99" && slices.Max(got) <= 0 {
			t.Errorf("%s: %v", name, got)
		}
	}
	if marked := series["write.per_second.checkpoint"]; (len(marked) == 4) != (checkpoints > 0) {
		t.Errorf("%v checkpoints, marked: %v", checkpoints, marked)
	}
}

// A failure is told in words that say what to do, and leaves nothing behind.
func TestFailures(t *testing.T) {
	e := engine(t, "native")
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = taken.Close() }) // nothing was accepted
	_, port, _ := net.SplitHostPort(taken.Addr().String())
	before := sharedMemory(t)
	for name, tt := range map[string]struct {
		options []string
		want    string
	}{
		"an unknown setting": {[]string{"set", "work_mum=8MB"}, "no such setting: see option set"},
		"a wrong value":      {[]string{"set", "work_mem=much"}, "refuses a setting: see option set"},
		"a taken port":       {[]string{"port", port}, "choose another with option port"},
	} {
		if testing.Short() && name == "a wrong value" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			s := measure(t, e, bench.Spec{}, 1, append(tt.options, "parts", "read1")...)[0]
			if s.Outcome != bench.Failed || !strings.Contains(s.Reason, tt.want) {
				t.Errorf("%s: %s\nwant %q", s.Outcome, s.Reason, tt.want)
			}
		})
	}
	nothingLeft(t, before)
}

// A file system without room is seen before the trial begins.
func TestNoRoom(t *testing.T) {
	e := engine(t, "native")
	small := t.TempDir()
	if err := unix.Mount("tmpfs", small, "tmpfs", 0, "size=64m"); err != nil {
		t.Skipf("a small disk needs the right to mount one: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(small, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	s := measure(t, e, bench.Spec{Data: small}, 1, "parts", "write1")[0]
	if s.Outcome != bench.Failed || !strings.Contains(s.Reason, "MB free, and a trial needs") {
		t.Errorf("%s: %s", s.Outcome, s.Reason)
	}
}

// An engine that fails or lies fails the trial, and nothing is left.
func TestFake(t *testing.T) {
	needServer(t)
	broken := errors.New("it is broken")
	for name, tt := range map[string]struct {
		config enginetest.FakeConfig
		want   string
	}{
		"create fails": {enginetest.FakeConfig{Faults: []enginetest.Fault{{Op: enginetest.OpCreate, Err: broken}}}, "broken"},
		"start fails":  {enginetest.FakeConfig{Faults: []enginetest.Fault{{Op: enginetest.OpStart, Err: broken}}}, "broken"},
		"another limit": {
			enginetest.FakeConfig{Applied: func(a *bench.Applied) { a.Limits.CPUs = 1 }}, "asked for",
		},
		// It has no programs but tare's own tasks.
		"no server": {enginetest.FakeConfig{}, "does not exist"},
	} {
		t.Run(name, func(t *testing.T) {
			tt.config.Images = []string{"host:postgres"}
			e := enginetest.NewFake(tt.config)
			s := measure(t, e, bench.Spec{Reach: bench.ReachSocket}, 1)[0]
			if s.Outcome != bench.Failed || !strings.Contains(s.Reason, tt.want) {
				t.Errorf("%s: %s\nwant %q", s.Outcome, s.Reason, tt.want)
			}
			if n := e.Live(); n != 0 {
				t.Errorf("%d containers are left", n)
			}
		})
	}
}
