package enginetest

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tare-bench/tare/internal/agent"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/image/imagetest"
	"github.com/tare-bench/tare/internal/kernel/proc"
)

// A storage is a value of Spec.Storage, and the Feature that an engine with it has.
type storage struct {
	word    string
	feature Feature
}

func storages() []storage {
	return []storage{{"layer", StorageLayer}, {"volume", StorageVolume}, {"bind", StorageBind}, {"tmpfs", StorageTmpfs}}
}

// storageOf checks each word of Spec.Storage.
func storageOf(t *testing.T, s *suite) {
	for _, on := range storages() {
		t.Run(on.word, func(t *testing.T) {
			spec := s.spec()
			spec.Storage = on.word
			if s.refused(t, on.feature, spec) {
				return
			}
			t.Run("of each alone", func(t *testing.T) { ownData(t, s, spec) })
			t.Run("read-only root", func(t *testing.T) { dataReadOnly(t, s, spec) })
			t.Run("read back", func(t *testing.T) { dataLiesOn(t, s, spec) })
			t.Run("with a name", func(t *testing.T) { namedData(t, s, spec) })
			if testing.Short() && on.word != "bind" {
				return // the other storages have no directory that could be elsewhere
			}
			spec.Data = t.TempDir()
			t.Run("elsewhere", func(t *testing.T) { ownData(t, s, spec) })
		})
	}
}

// "An empty directory that it may write to", of each container alone, gone with
// it.
func ownData(t *testing.T, s *suite, spec bench.Spec) {
	t.Helper()
	first, second := s.dataContainer(t, spec, "write", "text"), s.dataContainer(t, spec, "cat")
	first.ends(t, false)
	second.ends(t, true)
	if kept := s.keepsOutside(t); spec.Storage == "bind" && len(kept) != 2 || spec.Storage != "bind" && len(kept) > 0 {
		t.Errorf("of two containers, what would be cleaned up is %q", kept)
	}
	if spec.Storage == "bind" && spec.Data != "" {
		written, err := filepath.Glob(filepath.Join(spec.Data, "*", "data", "file"))
		if err != nil || len(written) != 1 {
			t.Errorf("below the directory that was asked for are %q, %v; want the file that was written", written, err)
		}
	}
	for _, x := range []*trial{first, second, first, second} { // untimed work is left to the second call
		s.remove(t, x)
	}
	if left := s.keepsOutside(t); len(left) > 0 {
		t.Errorf("left after Remove: %q", left)
	}
	if spec.Data != "" {
		emptied(t, spec.Data)
	}
}

// Data with a name outlive their container: the next one finds them, until they are
// removed. What goes with a container cannot have a name; a volume need not.
func namedData(t *testing.T, s *suite, spec bench.Spec) {
	t.Helper()
	spec.DataName = "kept"
	holder, ok := bench.As[bench.DataHolder](s.engine)
	if spec.Storage == "layer" || spec.Storage == "tmpfs" || !ok {
		s.refuses(t, spec)
		return
	}
	if err := s.engine.Prepare(t.Context(), spec); spec.Storage == "volume" && errors.Is(err, bench.ErrUnsupported) {
		return
	}
	for _, step := range []struct {
		task  []string
		fails bool
	}{{[]string{"write", "text"}, false}, {[]string{"cat"}, false}, {nil, false}, {[]string{"cat"}, true}} {
		if step.task == nil {
			if err := errors.Join(holder.RemoveData(t.Context(), spec), holder.RemoveData(t.Context(), spec)); err != nil {
				t.Errorf("RemoveData: %v", err)
			}
			continue
		}
		x := s.dataContainer(t, spec, step.task[0], step.task[1:]...)
		x.ends(t, step.fails)
		s.remove(t, x)
		s.remove(t, x) // see ownData
	}
	if err := holder.RemoveData(t.Context(), spec); err != nil {
		t.Errorf("RemoveData: %v", err)
	}
	if left := s.keepsOutside(t); len(left) > 0 {
		t.Errorf("left after RemoveData: %q", left)
	}
}

// dataContainer makes a container for a task on a file in its directory of data.
func (s *suite) dataContainer(t *testing.T, spec bench.Spec, task string, more ...string) *trial {
	t.Helper()
	file := filepath.Join(s.dataDir(t, spec), "file")
	spec.Argv = append([]string{agent.Path, task, file}, more...)
	return s.create(t, spec)
}

// dataDir is where the next container of spec finds its data.
func (s *suite) dataDir(t *testing.T, spec bench.Spec) string {
	t.Helper()
	k, ok := bench.As[bench.DataKeeper](s.engine)
	if !ok {
		return bench.DataDir
	}
	dir, err := k.DataDir(spec)
	if err != nil {
		t.Fatalf("DataDir: %v", err)
	}
	return dir
}

// keepsOutside lists the directories of this run that would be cleaned up.
func (s *suite) keepsOutside(t *testing.T) []string {
	t.Helper()
	var found []string
	for _, l := range s.leftoversOf(t, s.env.Run) {
		if l.Kind == "data" {
			found = append(found, l.ID)
		}
	}
	return found
}

// An image that is not tare's has no place for data, and may run as any user.
func foreignData(t *testing.T, s *suite) {
	spec := s.spec()
	spec.Image = imagetest.Foreign(t, imagetest.Agent(t))
	spec.Storage = "layer"
	if s.refused(t, ForeignData, spec) {
		return
	}
	for _, on := range storages() {
		if s.unsupported(on.feature) {
			continue
		}
		spec.Storage = on.word
		s.writesData(t, spec)
		readOnly := spec
		readOnly.Security.ReadOnly = true
		if err := s.engine.Prepare(t.Context(), readOnly); !errors.Is(err, bench.ErrUnsupported) { // or it is refused
			s.writesData(t, readOnly)
		}
	}
	if got := s.facts(t, spec); got.UID != 7 || got.GID != 8 {
		t.Errorf("the user inside is %d:%d, want the image's, 7:8", got.UID, got.GID)
	}
}

// writesData checks that a container of spec can write to its data.
func (s *suite) writesData(t *testing.T, spec bench.Spec) {
	t.Helper()
	s.dataContainer(t, spec, "write", "text").ends(t, false)
}

// ends runs a container to its end, and checks whether it fails.
func (x *trial) ends(t *testing.T, fails bool) {
	t.Helper()
	x.attach(t)
	x.start(t)
	if exit := x.wait(t); (exit.Code != 0) != fails {
		t.Errorf("%q with data on %s, %+v: %v (stderr: %.300q), want a failure: %v",
			x.spec.Argv, x.spec.Storage, x.spec.Security, exit, x.stderr.String(), fails)
	}
}

// With a read-only root, data can still be written, unless it is on the root.
func dataReadOnly(t *testing.T, s *suite, spec bench.Spec) {
	t.Helper()
	spec.Security.ReadOnly = true
	if spec.Storage == "layer" {
		s.refuses(t, spec)
		return
	}
	if s.unsupported(ReadOnlyRoot) {
		return
	}
	s.writesData(t, spec)
}

// The engine reports what the kernel reports: the mount and its type.
func dataLiesOn(t *testing.T, s *suite, spec bench.Spec) {
	t.Helper()
	spec.Argv = []string{agent.Path, "hold"}
	x := s.ready(t, spec, "ready\n")
	applied, err := x.Inspect(t.Context())
	on, kind, _ := strings.Cut(applied.Data, " ")
	if err != nil || on != spec.Storage || kind == "" {
		t.Errorf("Inspect says that data lies on %q, %v; want %s and the file system", applied.Data, err, spec.Storage)
	}
	if len(applied.DataMounts) == 0 && !s.Sandboxed && !s.Remote ||
		len(applied.DataMounts) > 0 && !strings.HasPrefix(applied.DataMounts[0], kind+" r") {
		t.Errorf("Inspect says that below the data is %q; want %s with its options", applied.DataMounts, kind)
	}
	s.requireDataSource(t, x)
	if _, native := bench.As[bench.DataKeeper](s.engine); native {
		return // the file system is the host's
	}
	mounts := s.facts(t, spec).Mounts
	i := slices.IndexFunc(mounts, func(m agent.Mount) bool { return m.Target == bench.DataDir })
	switch {
	case spec.Storage == "layer" && i >= 0:
		t.Errorf("data in the layer lies on a mount, %+v", mounts[i])
	case spec.Storage != "layer" && i < 0:
		t.Errorf("nothing is mounted at %s", bench.DataDir)
	case i >= 0 && mounts[i].Type != kind && !s.Sandboxed:
		t.Errorf("Inspect says %q, and the process inside sees %q", kind, mounts[i].Type)
	case spec.Storage == "tmpfs" && mounts[i].Type != "tmpfs":
		t.Errorf("a %s is mounted at %s, want a tmpfs", mounts[i].Type, bench.DataDir)
	}
}

// requireDataSource checks that the data directory of a running container, as the kernel names it, is removed
// with the container.
func (s *suite) requireDataSource(t *testing.T, x *trial) {
	t.Helper()
	if !x.keptOutside() {
		return
	}
	dir := x.hostData(t)
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		t.Fatalf("the data of a running container is not found on the host at %q: %v", dir, err)
	}
	s.remove(t, x)
	s.remove(t, x) // see ownData
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("left after Remove: %s (%v)", dir, err)
	}
}

// keptOutside reports whether the data is on the host, in a visible place.
func (x *trial) keptOutside() bool {
	on := x.spec.Storage
	return (on == "volume" || on == "bind") && !x.suite.Sandboxed
}

// hostData is the host's path of the mount for a container's data.
func (x *trial) hostData(t *testing.T) string {
	t.Helper()
	if _, native := bench.As[bench.DataKeeper](x.suite.engine); native {
		return x.suite.keepsOutside(t)[0]
	}
	inside, err := proc.Mounts("/", x.pid(t))
	here, err2 := proc.Mounts("/", 0)
	noError(t, errors.Join(err, err2))
	i := slices.IndexFunc(inside, func(m proc.Mount) bool { return m.Point == bench.DataDir })
	if i < 0 {
		t.Fatalf("nothing is mounted at %s", bench.DataDir)
	}
	for _, m := range here {
		if below, ok := strings.CutPrefix(inside[i].Root, strings.TrimSuffix(m.Root, "/")); ok &&
			m.Device == inside[i].Device {
			return filepath.Join(m.Point, below)
		}
	}
	t.Fatalf("the host does not have the file system of %+v", inside[i])
	return ""
}

// leavesData starts a container with each storage that the engine has, below dir,
// and returns where on the host their data lie.
func (s *suite) leavesData(t *testing.T, dir string) (left []string) {
	t.Helper()
	for _, on := range storages() {
		if s.unsupported(on.feature) {
			continue
		}
		spec := s.spec("hold")
		spec.Storage, spec.Data = on.word, dir
		x := s.ready(t, spec, "ready\n")
		if x.keptOutside() {
			left = append(left, x.hostData(t))
		}
	}
	return left
}

// emptied checks that no data is left below dir or in other places.
func emptied(t *testing.T, dir string, others ...string) {
	t.Helper()
	left, err := os.ReadDir(dir)
	noError(t, err)
	for _, e := range left {
		t.Errorf("left in the directory of data: %s", e.Name())
	}
	for _, other := range others {
		if _, err := os.Stat(other); !os.IsNotExist(err) {
			t.Errorf("left of data: %s (%v)", other, err)
		}
	}
}
