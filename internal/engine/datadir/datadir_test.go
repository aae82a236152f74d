package datadir_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/datadir"
)

const run = "run-1"

// keeper returns the keeper of an engine in a run, and the run's directory.
func keeper(t *testing.T) (*datadir.Manager, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), run)
	if err := os.Mkdir(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	return datadir.New(run, "runc", dir), dir
}

// take takes a directory and writes into it.
func take(t *testing.T, k *datadir.Manager, data string) *datadir.Dir {
	t.Helper()
	d, err := k.Take(bench.Spec{Storage: "bind", Data: data})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(d.Path, "file"), nil, 0o600); err != nil {
		t.Error(err)
	}
	return d
}

// empty wants nothing in directories.
func empty(t *testing.T, dirs ...string) {
	t.Helper()
	for _, dir := range dirs {
		entries, err := os.ReadDir(dir)
		if err != nil || len(entries) > 0 {
			t.Errorf("%s has %v, %v; want nothing", dir, entries, err)
		}
	}
}

func TestTake(t *testing.T) {
	k, dir := keeper(t)
	elsewhere := t.TempDir()
	for _, data := range []string{"", elsewhere} {
		first, second := take(t, k, data), take(t, k, data)
		parent := filepath.Dir(first.Path)
		if data != "" {
			parent = filepath.Dir(parent)
		}
		if first.Path == second.Path || data != "" && parent != data || data == "" && !strings.HasPrefix(parent, dir+"/") {
			t.Errorf("below %q: %s and %s", data, first.Path, second.Path)
		}
		info, err := os.Stat(first.Path)
		if want := fs.ModeDir | fs.ModeSticky | 0o777; err != nil || info.Mode() != want {
			t.Errorf("%s: %v, %v; want %v", first.Path, info.Mode(), err, want)
		}
		for _, d := range []*datadir.Dir{first, first, second} { // twice is fine
			if err := d.Remove(); err != nil {
				t.Error(err)
			}
		}
	}
	if err := k.Close(); err != nil {
		t.Error(err)
	}
	empty(t, dir, elsewhere)
}

// Nobody but who runs tare gets at the data of a container, wherever they lie. Users of plain
// processes can pass, but see nothing on the way.
func TestClosed(t *testing.T) {
	_, dir := keeper(t)
	for _, test := range []struct {
		k    *datadir.Manager
		want fs.FileMode
	}{
		{datadir.New(run, "runc", dir), 0o700},
		{datadir.NewPlain(run, "native", dir), 0o711},
	} {
		for _, data := range []string{"", t.TempDir()} {
			d := take(t, test.k, data)
			info, err := os.Stat(filepath.Dir(d.Path))
			if err != nil || info.Mode().Perm() != test.want {
				t.Errorf("around %s: %v, %v; want %v", d.Path, info.Mode(), err, test.want)
			}
		}
	}
}

func TestNoDirectory(t *testing.T) {
	k, dir := keeper(t)
	for _, storage := range []string{"", "layer", "volume", "tmpfs"} {
		spec := bench.Spec{Storage: storage}
		d, err := k.Take(spec)
		if err := errors.Join(err, k.Prepare(spec), d.Remove()); d.At() != "" || err != nil {
			t.Errorf("%q: %v, %v", storage, d, err)
		}
	}
	missing := filepath.Join(dir, "missing")
	for data, want := range map[string]error{"relative": bench.ErrUnsupported, missing: fs.ErrNotExist} {
		if _, err := k.Take(bench.Spec{Storage: "bind", Data: data}); !errors.Is(err, want) {
			t.Errorf("below %q: %v, want %v", data, err, want)
		}
	}
	if err := k.Close(); err != nil {
		t.Error(err)
	}
	empty(t, dir)
}

// What is staged is taken by who wants it there, once.
func TestStage(t *testing.T) {
	k, dir := keeper(t)
	elsewhere := t.TempDir()
	there := bench.Spec{Storage: "bind", Data: elsewhere}
	for range 3 {
		if err := k.Prepare(there); err != nil {
			t.Fatal(err)
		}
	}
	staged, err := os.ReadDir(elsewhere)
	if err != nil || len(staged) != 1 {
		t.Fatalf("staged: %v, %v; want one directory", staged, err)
	}
	here, first, second := take(t, k, ""), take(t, k, elsewhere), take(t, k, elsewhere)
	if filepath.Base(filepath.Dir(first.Path)) != staged[0].Name() || second.Path == first.Path || filepath.Dir(here.Path) == elsewhere {
		t.Errorf("staged %s; taken here %s, there %s and %s", staged[0].Name(), here.Path, first.Path, second.Path)
	}
	if err := errors.Join(k.Prepare(there), k.Close()); err != nil {
		t.Error(err)
	}
	empty(t, dir, elsewhere)
}

func TestFits(t *testing.T) {
	k, _ := keeper(t)
	elsewhere := t.TempDir()
	d := take(t, k, elsewhere)
	for _, test := range []struct {
		d       *datadir.Dir
		storage string
		data    string
		want    bool
	}{
		{nil, "", "", true},
		{nil, "tmpfs", elsewhere, true},
		{nil, "bind", "", false},
		{d, "bind", elsewhere, true},
		{d, "bind", "", false},
		{d, "layer", elsewhere, false},
	} {
		if got := test.d.Fits(bench.Spec{Storage: test.storage, Data: test.data}); got != test.want {
			t.Errorf("%q at %q, with %q: %v, want %v", test.storage, test.data, test.d.At(), got, test.want)
		}
	}
}

func TestConcurrently(t *testing.T) {
	k, dir := keeper(t)
	var wg sync.WaitGroup
	var seen sync.Map
	for range 32 {
		wg.Go(func() {
			d, err := k.Take(bench.Spec{Storage: "bind"})
			if err != nil {
				t.Error(err)
				return
			}
			if _, twice := seen.LoadOrStore(d.Path, true); twice {
				t.Errorf("%s is had by two", d.Path)
			}
		})
	}
	wg.Wait()
	if err := k.Close(); err != nil {
		t.Error(err)
	}
	empty(t, dir)
}

// A run that is resumed passes over what it has left.
func TestResumed(t *testing.T) {
	k, dir := keeper(t)
	elsewhere := t.TempDir()
	before := []*datadir.Dir{take(t, k, ""), take(t, k, elsewhere)}
	k = datadir.New(run, "runc", dir)
	for i, data := range []string{"", elsewhere} {
		if after := take(t, k, data); after.Path == before[i].Path {
			t.Errorf("%s is had by a container of before", after.Path)
		}
	}
	if err := k.Close(); err != nil {
		t.Error(err)
	}
	empty(t, dir, elsewhere)
}

func TestLeftovers(t *testing.T) {
	k, dir := keeper(t)
	elsewhere := t.TempDir()
	var want []bench.Leftover
	for _, data := range []string{"", elsewhere} {
		whole := take(t, k, data).Path
		if data != "" {
			whole = filepath.Dir(whole)
		}
		want = append(want, bench.Leftover{Run: run, Engine: "runc", Kind: datadir.Kind, ID: whole})
	}
	isDead := func(id string) bool { return id == run }
	runs := filepath.Dir(dir)
	other := datadir.New("clean", "runc", filepath.Join(runs, "clean")) // whose directory is not there
	left, err := other.Leftovers(isDead)
	if diff := cmp.Diff(want, left); err != nil || diff != "" {
		t.Fatalf("Leftovers: %v (-want +got):\n%s", err, diff)
	}
	for name, k := range map[string]*datadir.Manager{
		"another engine":       datadir.New("clean", "runc-2", filepath.Join(runs, "clean")),
		"a place without runs": datadir.New("clean", "runc", "/no/such/clean"),
	} {
		if left, err := k.Leftovers(isDead); err != nil || len(left) > 0 {
			t.Errorf("Leftovers of %s: %v, %v", name, left, err)
		}
	}
	if left, err := other.Leftovers(func(string) bool { return false }); err != nil || len(left) > 0 {
		t.Errorf("Leftovers of no run: %v, %v", left, err)
	}
	for _, l := range append(left, left...) { // it is not an error if it is gone
		if err := other.RemoveLeftover(l); err != nil {
			t.Error(err)
		}
	}
	empty(t, dir, elsewhere)
}

// A record is no reason to delete what cannot be tare's.
func TestForeignRecords(t *testing.T) {
	k, dir := keeper(t)
	precious := filepath.Join(t.TempDir(), "precious")
	records := filepath.Dir(take(t, k, "").Path)
	if err := os.Mkdir(precious, 0o755); err != nil {
		t.Fatal(err)
	}
	named := filepath.Join(filepath.Dir(precious), "tare-run-1-runc-8")
	if err := os.Symlink(precious, named); err != nil {
		t.Fatal(err)
	}
	for record, target := range map[string]string{
		"2": precious, "3": "../../precious", "4": filepath.Dir(precious) + "/tare-run-2-runc-4", "x": precious,
		"05": precious, "8": named,
	} {
		if err := os.Symlink(target, filepath.Join(records, record)); err != nil {
			t.Fatal(err)
		}
	}
	left, err := k.Leftovers(func(string) bool { return true })
	if err != nil || len(left) != 2 {
		t.Errorf("Leftovers = %v, %v; want the directory and what has the name of one", left, err)
	}
	for _, l := range append(left, bench.Leftover{Run: run, Engine: "runc", Kind: datadir.Kind, ID: precious}) {
		if err := k.RemoveLeftover(l); err != nil {
			t.Error(err)
		}
	}
	for _, l := range []bench.Leftover{
		{Run: "../" + run, Engine: "runc", Kind: datadir.Kind, ID: precious},
		{Run: run, Engine: "crun", Kind: datadir.Kind, ID: precious},
		{Run: run, Engine: "runc", Kind: "container", ID: precious},
	} {
		if err := k.RemoveLeftover(l); err == nil {
			t.Errorf("RemoveLeftover(%+v) succeeds", l)
		}
	}
	if _, err := os.Stat(precious); err != nil {
		t.Errorf("what is not tare's is gone: %v", err)
	}
	if _, err := os.Stat(dir); err != nil {
		t.Error(err)
	}
}

func TestMounts(t *testing.T) {
	k, _ := keeper(t)
	d := take(t, k, "")
	asked := []bench.Mount{{Type: "tmpfs", Target: "/t"}}
	with := func(m bench.Mount) []bench.Mount { return []bench.Mount{asked[0], m} }
	for _, test := range []struct {
		storage string
		d       *datadir.Dir
		want    []bench.Mount
	}{
		{"", nil, asked},
		{"layer", nil, asked},
		{"tmpfs", nil, with(bench.Mount{Type: "tmpfs", Target: bench.DataDir})},
		{"bind", d, with(bench.Mount{Type: "bind", Source: d.Path, Target: bench.DataDir})},
	} {
		if diff := cmp.Diff(test.want, datadir.Mounts(bench.Spec{Storage: test.storage, Mounts: asked}, test.d)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", test.storage, diff)
		}
	}
}

func TestCheck(t *testing.T) {
	for _, test := range []struct {
		spec    bench.Spec
		refused bool
	}{
		{bench.Spec{Storage: "layer"}, false},
		{bench.Spec{Storage: "layer", Security: bench.Security{ReadOnly: true}}, true},
		{bench.Spec{Storage: "tmpfs", Security: bench.Security{ReadOnly: true}}, false},
		{bench.Spec{Storage: "bind", Data: "/srv"}, false},
		{bench.Spec{Storage: "bind", Data: "srv"}, true},
	} {
		if err := datadir.Check(test.spec); errors.Is(err, bench.ErrUnsupported) != test.refused {
			t.Errorf("%+v: %v, want it refused: %v", test.spec, err, test.refused)
		}
	}
}

func TestMakeIn(t *testing.T) {
	root, outside := t.TempDir(), t.TempDir()
	for range 2 {
		if err := datadir.MakeIn(root); err != nil {
			t.Fatal(err)
		}
	}
	info, err := os.Stat(filepath.Join(root, bench.DataDir))
	if want := fs.ModeDir | fs.ModeSticky | 0o777; err != nil || info.Mode() != want {
		t.Errorf("%v, %v; want %v", info.Mode(), err, want)
	}
	other := t.TempDir()
	if err := os.Symlink(filepath.Join(outside, "made"), filepath.Join(other, bench.DataDir)); err != nil {
		t.Fatal(err)
	}
	_ = datadir.MakeIn(other) // whether a link is enough is for the container to find out
	empty(t, outside)
}

func TestArchive(t *testing.T) {
	b, err := datadir.Archive()
	if err != nil {
		t.Fatal(err)
	}
	h, err := tar.NewReader(bytes.NewReader(b)).Next()
	if err != nil || h.Name != "tare-data/" || h.Typeflag != tar.TypeDir || h.Mode != 0o1777 {
		t.Errorf("the archive has %+v, %v", h, err)
	}
}

// A directory with a name is one for all containers, and stays until it is removed by its
// name, or with the run: after a crash by who cleans up.
func TestNamed(t *testing.T) {
	k, dir := keeper(t)
	elsewhere := t.TempDir()
	for _, data := range []string{"", elsewhere} {
		spec := bench.Spec{Storage: "bind", Data: data, DataName: map[string]string{"": "here-1", elsewhere: "there"}[data]}
		if err := k.Prepare(spec); err != nil {
			t.Fatal(err)
		}
		first, err := k.Take(spec)
		if err == nil {
			err = os.WriteFile(filepath.Join(first.Path, "file"), nil, 0o600)
		}
		if err = errors.Join(err, first.Remove()); err != nil {
			t.Fatal(err)
		}
		second, err := k.Take(spec)
		if err != nil || second.Path != first.Path || !second.Fits(spec) ||
			second.Fits(bench.Spec{Storage: "bind", Data: data}) {
			t.Fatalf("%+v after %+v, %v", second, first, err)
		}
		if _, err := os.Stat(filepath.Join(second.Path, "file")); err != nil {
			t.Errorf("what the first container left: %v", err)
		}
		own := take(t, k, data)
		if own.Path == first.Path {
			t.Errorf("a container of another name has %s as well", own.Path)
		}
		if err := errors.Join(own.Remove(), k.RemoveNamed(spec), k.RemoveNamed(spec)); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(first.Path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is left: %v", first.Path, err)
		}
		if _, err := k.Take(spec); err != nil { // for those who clean up
			t.Error(err)
		}
	}
	after := datadir.New("run-2", "runc", filepath.Join(filepath.Dir(dir), "run-2"))
	left, err := after.Leftovers(func(id string) bool { return id == run })
	if err != nil || len(left) != 2 {
		t.Fatalf("left: %v, %v; want two directories", left, err)
	}
	if err := after.RemoveLeftover(left[0]); err != nil {
		t.Error(err)
	}
	if err := k.Close(); err != nil {
		t.Error(err)
	}
	empty(t, dir, elsewhere)
}

// A name stands for one place, and what no engine can do is refused.
func TestNamesAreRefused(t *testing.T) {
	k, _ := keeper(t)
	if _, err := k.Take(bench.Spec{Storage: "bind", DataName: "pg"}); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Take(bench.Spec{Storage: "bind", DataName: "pg", Data: t.TempDir()}); err == nil {
		t.Error("one name has two places")
	}
	for _, spec := range []bench.Spec{
		{Storage: "tmpfs", DataName: "pg"},
		{DataName: "pg"},
		{Storage: "bind", DataName: "1"},
		{Storage: "bind", DataName: "../pg"},
		{Storage: "volume", DataName: strings.Repeat("p", 33)},
	} {
		if err := datadir.Check(spec); !errors.Is(err, bench.ErrUnsupported) {
			t.Errorf("%+v: %v", spec, err)
		}
	}
}
