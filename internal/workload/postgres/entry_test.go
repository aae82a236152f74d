package postgres_test

import (
	_ "embed"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/image/imagetest"
	"github.com/tare-bench/tare/internal/workload/postgres"
)

//go:embed testdata/entrypoint.sh
var entrypoint string

// official returns an image in the style of the official one, with the host's PostgreSQL: an entry point that
// is looked up in PATH, a declared volume, and a cluster that is made when the container starts.
func official(t testing.TB) string {
	t.Helper()
	lib := postgres.SharedLibrary(t)
	packed, err := lib.Resolve(t.Context(), "host:postgres")
	if err != nil {
		t.Fatal(err)
	}
	bin := path.Dir(packed.Packed().Program)
	base, err := lib.Pack(t.Context(), "postgres", bin+"/pg_ctl", "mkdir", "chown", "chmod")
	if err != nil {
		t.Fatal(err)
	}
	script := imagetest.File("usr/local/bin/entrypoint.sh", entrypoint)
	script.Mode = 0o755
	const data = "/var/lib/postgresql/data"
	return imagetest.Over(t, base, map[string]any{
		"Entrypoint": []string{"entrypoint.sh"}, "Cmd": []string{"postgres"}, "Env": append(base.Env(), "PGDATA="+data),
		"Volumes": map[string]any{data: map[string]any{}}, "StopSignal": "SIGINT",
		"ExposedPorts": map[string]any{"5432/tcp": map[string]any{}},
	}, script)
}

// The image's own entry point makes the cluster and starts the server, as the image's user, on the CPUs of the
// cell and with its settings. Nothing of it is left.
func TestEntry(t *testing.T) {
	engines := []string{"runc", "docker"}
	if testing.Short() {
		engines = engines[:1]
	}
	needServer(t)
	ref := official(t)
	for _, name := range engines {
		t.Run(name, func(t *testing.T) {
			e := engine(t, name)
			before := danglingVolumes(t)
			samples := measure(t, e, bench.Spec{Image: ref}, 1, "entry", "image", "parts", "read1,write1", "fsync", "off",
				"time", "400ms", "write_time", "400ms")
			v := good(t, samples)
			above(t, v, "read1.rate", "write1.rate", "postgres.ready", "write1.server.wal", "read1.memory_load")
			if _, copied := v["postgres.copy"]; copied || v["write1.server.syncs"] != 0 {
				t.Errorf("copied: %v, syncs with fsync=off: %v", copied, v["write1.server.syncs"])
			}
			got := samples[0].Applied
			if !slices.Contains(got.Argv, "/usr/local/bin/entrypoint.sh") || !slices.Contains(got.Argv, "fsync=off") {
				t.Errorf("it runs %q", got.Argv)
			}
			if got.Process == nil || got.Process.UID != 999 {
				t.Errorf("the server's process: %+v, want user 999 of the image", got.Process)
			}
			noNewVolumes(t, before)
		})
	}
}

// An entry point that fails is told with what it said, and what to do.
func TestEntryFails(t *testing.T) {
	if testing.Short() {
		return
	}
	e := engine(t, "runc")
	s := measure(t, e, bench.Spec{Image: official(t)}, 1, "entry", "image", "parts", "read1", "set", "work_mum=8MB")[0]
	if want := "no such setting: see option set"; s.Outcome != bench.Failed || !strings.Contains(s.Reason, want) {
		t.Errorf("%s: %s\nwant %q", s.Outcome, s.Reason, want)
	}
}

// danglingVolumes are the volumes of Docker that no container has.
func danglingVolumes(t *testing.T) []string {
	t.Helper()
	if _, err := exec.LookPath("docker"); err != nil {
		return nil
	}
	cmd := exec.CommandContext(t.Context(), "docker", "volume", "ls", "--quiet", "--filter", "dangling=true")
	cmd.Env = os.Environ()
	out, err := cmd.Output()
	if err != nil {
		return nil // it does not run: then it makes none
	}
	return strings.Fields(string(out))
}

// noNewVolumes wants no volume to be left that was not there before. What others of this host make is gone when
// they are.
func noNewVolumes(t *testing.T, before []string) {
	t.Helper()
	const within, every = 20 * time.Second, 200 * time.Millisecond
	isNew := func(v string) bool { return !slices.Contains(before, v) }
	for end := time.Now().Add(within); slices.ContainsFunc(danglingVolumes(t), isNew); time.Sleep(every) {
		if time.Now().After(end) {
			t.Errorf("left behind: volumes %q, before there were %q", danglingVolumes(t), before)
			return
		}
	}
}
