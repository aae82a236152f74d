package enginetest

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tare-bench/tare/internal/agent"
	"github.com/tare-bench/tare/internal/bench"
)

func bindMount(t *testing.T, s *suite) {
	dir := t.TempDir()
	spec := s.spec("write", "/mnt-dir/file", "hello")
	spec.Mounts = []bench.Mount{{Type: "bind", Source: dir, Target: "/mnt-dir"}}
	if s.refused(t, BindMount, spec) {
		return
	}
	s.output(t, spec)
	if got, err := os.ReadFile(filepath.Join(dir, "file")); err != nil || string(got) != "hello" {
		t.Errorf("the file outside = %q, %v; want what was written inside", got, err)
	}

	spec.Mounts[0].ReadOnly = true
	spec.Argv = s.spec("write", "/mnt-dir/another", "hello").Argv
	if _, exit := s.run(t, spec); exit.Code == 0 {
		t.Error("writing to a read-only mount succeeds")
	}
	if left := files(t, dir); len(left) != 2 {
		t.Errorf("written through a read-only mount: %q", left)
	}
}

func bindFile(t *testing.T, s *suite) {
	name := filepath.Join(t.TempDir(), "outside")
	noError(t, os.WriteFile(name, []byte("text"), 0o644))
	spec := s.spec("cat", "/mnt/deeper/inside")
	spec.Mounts = []bench.Mount{{Type: "bind", Source: name, Target: "/mnt/deeper/inside"}}
	if s.refused(t, BindMount, spec) {
		return
	}
	if got := s.output(t, spec); got != "text" {
		t.Errorf("the file inside = %q, want %q", got, "text")
	}
}

func tmpfsMount(t *testing.T, s *suite) {
	const size = 64 << 10 // small multiple of every page size
	spec := s.spec("facts")
	spec.Mounts = []bench.Mount{{Type: "tmpfs", Target: "/mnt-tmp", Size: size}}
	if s.refused(t, TmpfsMount, spec) {
		return
	}
	i := slices.IndexFunc(s.facts(t, spec).Mounts,
		func(m agent.Mount) bool { return m.Target == "/mnt-tmp" && m.Type == "tmpfs" })
	if i < 0 {
		t.Error("no tmpfs at /mnt-tmp")
	}
	spec.Argv = []string{agent.Path, "write", "/mnt-tmp/file", "fits"}
	s.output(t, spec)
	spec.Argv = []string{agent.Path, "write", "/mnt-tmp/file", strings.Repeat("x", size+1)}
	if _, exit := s.run(t, spec); exit.Code == 0 {
		t.Errorf("%d bytes fit into a tmpfs of %d", size+1, size)
	}
}

// "none": "own namespace, loopback only".
func networkNone(t *testing.T, s *suite, spec bench.Spec) {
	for network, facts := range map[string]agent.Facts{"none": s.facts(t, spec), "": s.plainFacts(t)} {
		if facts.NetNS == namespace(t, "net") {
			t.Errorf("network %q is the host's namespace", network)
		}
		if !slices.Equal(facts.Interfaces, []string{"lo"}) {
			t.Errorf("network %q has the interfaces %q, want lo alone", network, facts.Interfaces)
		}
	}
}

func networkHost(t *testing.T, s *suite, spec bench.Spec) {
	facts := s.facts(t, spec)
	if got, want := facts.NetNS, namespace(t, "net"); got != want && !s.Sandboxed {
		t.Errorf("network namespace %d, want the host's, %d", got, want)
	}
	for _, name := range interfaces(t) {
		if !slices.Contains(facts.Interfaces, name) {
			t.Errorf("network host has the interfaces %q, want the host's %s among them", facts.Interfaces, name)
		}
	}
}

// interfaces are the host's permanent interfaces: others come and go with containers.
func interfaces(t *testing.T) []string {
	t.Helper()
	dirs, err := filepath.Glob("/sys/class/net/*/device")
	noError(t, err)
	names := []string{"lo"}
	for _, dir := range dirs {
		names = append(names, filepath.Base(filepath.Dir(dir)))
	}
	return names
}

func networkBridge(t *testing.T, s *suite, spec bench.Spec) {
	facts := s.facts(t, spec)
	if facts.NetNS == namespace(t, "net") {
		t.Error("network bridge is the host's namespace")
	}
	if len(facts.Interfaces) < 2 {
		t.Errorf("network bridge has the interfaces %q, want one beside lo", facts.Interfaces)
	}
}

// Each container begins with the unchanged image, and other containers do not see what it writes.
func freshLayer(t *testing.T, s *suite) {
	if s.unsupported(Layer) {
		return
	}
	s.output(t, s.spec("write", "/layer-file", "text"))
	if _, exit := s.run(t, s.spec("cat", "/layer-file")); exit.Code == 0 {
		t.Error("a container sees what another one wrote")
	}
	img, err := s.env.Images.Resolve(t.Context(), "")
	noError(t, err)
	root, err := img.Rootfs(t.Context())
	noError(t, err)
	if _, err := os.Lstat(filepath.Join(root, "layer-file")); !os.IsNotExist(err) {
		t.Errorf("a container wrote into the image: %v", err)
	}
}

// "Digest of the image's configuration."
func imageDigest(t *testing.T, s *suite) {
	img, err := s.env.Images.Resolve(t.Context(), "")
	noError(t, err)
	x, _ := s.run(t, s.spec("exit", "0"))
	if x.applied.Image != img.Digest() {
		t.Errorf("Inspect names the image %s, want %s", x.applied.Image, img.Digest())
	}
}

// A program of the host runs from the image that was made from it, which is the same in every
// engine.
func hostProgram(t *testing.T, s *suite) {
	const ref = "host:/bin/sh"
	img, err := s.env.Images.Resolve(t.Context(), ref)
	noError(t, err)
	for _, program := range []string{"/bin/sh", "sh"} {
		x, exit := s.run(t, bench.Spec{Image: ref, Argv: []string{program, "-c", "echo $((6 * 7)); exit 3"}})
		if out := x.stdout.String(); out != "42\n" || exit != (bench.Exit{Code: 3}) || x.applied.Image != img.Digest() {
			t.Errorf("%s: %q, %v, image %s; want 42, status 3 and %s (stderr: %.300q)",
				program, out, exit, x.applied.Image, img.Digest(), x.stderr.String())
		}
	}
}
