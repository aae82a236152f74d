package pack_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/image/pack"
)

// packed packs below a root.
func packed(t *testing.T, root string, programs ...string) *pack.Set {
	t.Helper()
	s, err := pack.Host{Root: root}.Pack(programs...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// root makes a workshop with a static program, /prog.
func root(t *testing.T) fixtureTree {
	t.Helper()
	w := newFixtureTree(t)
	w.link("prog", []string{"-static", "-Wl,-e,main"})
	return w
}

// find returns an entry of a set.
func find(t *testing.T, s *pack.Set, name string) pack.Entry {
	t.Helper()
	i := slices.IndexFunc(s.Entries, func(e pack.Entry) bool { return e.Path == name })
	if i < 0 {
		t.Fatalf("%s is not in the image", name)
	}
	return s.Entries[i]
}

// TestSeveral packs two programs: files that both need are there once.
func TestSeveral(t *testing.T) {
	w := newFixtureTree(t)
	one := w.program("bin/one", w.library("lib/libone.so"), runpath+"$ORIGIN/../lib")
	two := w.program("bin/two", filepath.Join(w.dir, "lib/libone.so"), w.library("lib/libtwo.so"),
		runpath+"$ORIGIN/../lib")
	s := packed(t, "", one, two)
	got := slices.DeleteFunc(hostFiles(s), func(file string) bool { return !strings.HasPrefix(file, w.dir) })
	want := []string{one, two, filepath.Join(w.dir, "lib/libone.so"), filepath.Join(w.dir, "lib/libtwo.so")}
	if diff := cmp.Diff(want, got); diff != "" || s.Program != one {
		t.Errorf("program %s, files (-want +got):\n%s", s.Program, diff)
	}
	wantRoot(t)
	dir := unpack(t, s)
	for _, prog := range []string{one, two} {
		if diff := cmp.Diff(trace(t, "", prog), trace(t, dir, prog)); diff != "" {
			t.Errorf("%s: loaded outside (-) and inside (+):\n%s", prog, diff)
		}
	}
}

// TestRecipes wants of each recipe that it is consistent in itself.
func TestRecipes(t *testing.T) {
	names := map[string]bool{}
	for _, r := range pack.Recipes() {
		for _, name := range append(r.For, r.Name+" itself") {
			if names[name] {
				t.Errorf("two recipes for %s", name)
			}
			names[name] = true
		}
		for _, p := range slices.Concat(r.Where, r.Open) {
			if _, err := filepath.Match(p, ""); err != nil {
				t.Errorf("%s: pattern %q: %v", r.Name, p, err)
			}
		}
		for _, m := range r.Make {
			owned := m.Owner == "" || slices.ContainsFunc(r.Users, func(u pack.User) bool { return u.Name == m.Owner })
			if filepath.Clean(m.Path) != m.Path || !filepath.IsAbs(m.Path) || !owned || m.Mode.IsDir() != (m.Text == "") {
				t.Errorf("%s makes %+v", r.Name, m)
			}
		}
	}
}

// postgresRoot has several PostgreSQLs side by side.
func postgresRoot(t *testing.T) fixtureTree {
	t.Helper()
	w := root(t)
	for _, v := range []string{"9.6", "16", "15"} {
		for _, name := range []string{"postgres", "initdb", "setpriv", "pg_controldata"} {
			w.link("usr/lib/postgresql/"+v+"/bin/"+name, []string{"-static", "-Wl,-e,main"})
		}
		w.text("usr/share/postgresql/"+v+"/postgres.bki", v)
		w.text("usr/share/postgresql/"+v+"/timezonesets/Default", v)
	}
	w.link("bin/sh", []string{"-static", "-Wl,-e,main"})
	w.text("usr/share/zoneinfo/UTC", "")
	w.text("usr/share/zoneinfo/posix/UTC", "")
	t.Setenv("PATH", "/nowhere")
	return w
}

// postgresFiles are the host's files in the image of one of them.
func postgresFiles(version string) []string {
	bin, share := "/usr/lib/postgresql/"+version+"/bin/", "/usr/share/postgresql/"+version+"/"
	return []string{
		"/bin/sh", bin + "initdb", bin + "pg_controldata", bin + "postgres", bin + "setpriv",
		share + "postgres.bki", share + "timezonesets/Default", "/usr/share/zoneinfo/UTC",
	}
}

// TestPostgresVersions packs each of several PostgreSQLs by its path, with the programs and files of its
// own version alone.
func TestPostgresVersions(t *testing.T) {
	w := postgresRoot(t)
	for _, version := range []string{"15", "16", "9.6"} {
		s := packed(t, w.dir, "/usr/lib/postgresql/"+version+"/bin/postgres")
		if diff := cmp.Diff(postgresFiles(version), hostFiles(s)); diff != "" {
			t.Errorf("version %s: files (-want +got):\n%s", version, diff)
		}
		for program, want := range map[string]bool{"initdb": true, "pg_controldata": true, "psql": false} {
			if name := "/usr/lib/postgresql/" + version + "/bin/" + program; s.HasProgram(name) != want {
				t.Errorf("HasProgram(%s) = %v", name, !want)
			}
		}
		if s.HasProgram("/usr/share/postgresql/"+version+"/postgres.bki") || s.HasProgram("/etc/passwd") {
			t.Errorf("version %s: a file that cannot be executed is a program", version)
		}
	}
}

// TestPostgresRecipe packs the newest of several PostgreSQLs that are in no PATH,
// with its data and not another's.
func TestPostgresRecipe(t *testing.T) {
	w := postgresRoot(t)
	s := packed(t, w.dir, "postgres")
	if diff := cmp.Diff(postgresFiles("16"), hostFiles(s)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	data := find(t, s, "/var/lib/postgresql")
	if data.UID != 999 || data.GID != 999 || data.Mode != fs.ModeDir|0o755 {
		t.Errorf("%+v, want a directory of 999:999", data)
	}
	if got := s.Process.Env[0]; !strings.HasPrefix(got, "PATH=/usr/lib/postgresql/16/bin:") {
		t.Errorf("%s does not begin with the programs' directory", got)
	}
	if part := find(t, s, "/usr/share/zoneinfo/UTC").Part; part != "/usr/share/zoneinfo" {
		t.Errorf("part of %q", part)
	}
	if err := os.Remove(filepath.Join(w.dir, "usr/lib/postgresql/16/bin/setpriv")); err != nil {
		t.Fatal(err)
	}
	_, err := pack.Host{Root: w.dir}.Pack("postgres")
	if !errors.Is(err, bench.ErrUnsupported) || !strings.Contains(err.Error(), "needs the program setpriv") {
		t.Errorf("without setpriv: %v, want bench.ErrUnsupported that names it", err)
	}
}

// TestRecipe wants of a program what its recipe says, also where a link of the image
// is in the place of a directory that the recipe makes.
func TestRecipe(t *testing.T) {
	w := root(t)
	if err := os.Link(w.path("prog"), w.path("var/x/nginx")); err != nil {
		t.Fatal(err)
	}
	w.symlink("var/x", "run")
	s := packed(t, w.dir, "/run/nginx")
	want := pack.Process{
		Entrypoint: []string{"/run/nginx", "-g", "daemon off;"}, Cmd: []string{"-c", "/etc/nginx/nginx.conf"},
		Env: []string{"PATH=/run:/var/x:" + pack.SearchPath}, Ports: []string{"80/tcp"},
	}
	if diff := cmp.Diff(want, s.Process); diff != "" {
		t.Errorf("process (-want +got):\n%s", diff)
	}
	conf := find(t, s, "/etc/nginx/nginx.conf")
	if !conf.Made() || conf.Wanted != "/run/nginx" || find(t, s, "/var/x/nginx").Made() {
		t.Errorf("%+v, want a file that was made for /run/nginx, which was not", conf)
	}
	if link, dir := find(t, s, "/run"), find(t, s, "/var/x"); link.Target != "var/x" || !dir.Mode.IsDir() {
		t.Errorf("%+v and %+v, want a link and a directory", link, dir)
	}
	users := "root:x:0:0:root:/:/sbin/nologin\nnobody:x:65534:65534:nobody:/:/sbin/nologin\n" +
		"www-data:x:33:33::/:/sbin/nologin\nnginx:x:101:101::/:/sbin/nologin\nhttp:x:102:102::/:/sbin/nologin\n"
	if diff := cmp.Diff(users, string(find(t, s, "/etc/passwd").Data)); diff != "" {
		t.Errorf("passwd (-want +got):\n%s", diff)
	}
	groups := "root:x:0:\nnogroup:x:65534:\nwww-data:x:33:\nnginx:x:101:\nhttp:x:102:\n"
	if diff := cmp.Diff(groups, string(find(t, s, "/etc/group").Data)); diff != "" {
		t.Errorf("group (-want +got):\n%s", diff)
	}
	twice := packed(t, w.dir, "/run/nginx", "/run/nginx")
	if diff := cmp.Diff(users, string(find(t, twice, "/etc/passwd").Data)); diff != "" {
		t.Errorf("passwd of the same program twice (-want +got):\n%s", diff)
	}
}

// TestRecipeItself packs the program of a recipe by the recipe's name.
func TestRecipeItself(t *testing.T) {
	w := root(t)
	t.Setenv("PATH", w.dir)
	for _, name := range []string{"valkey-server", "redis-server", "redis"} { // each goes before those that are there
		if err := os.Link(w.path("prog"), w.path(name)); err != nil {
			t.Fatal(err)
		}
		s := packed(t, "", "redis")
		if want := filepath.Join(w.dir, name); s.Program != want || len(s.Process.Cmd) == 0 {
			t.Errorf("%s %q, want %s with what the recipe says", s.Program, s.Process.Cmd, want)
		}
	}
	t.Setenv("PATH", "/nowhere")
	for name, want := range map[string]string{"redis": "redis-server", "no-such-program": "no-such-program"} {
		_, err := pack.Host{}.Pack(name)
		want = `program "` + want + `" is not in PATH, /usr/sbin or /sbin: install it, or give the path of its file`
		if !errors.Is(err, bench.ErrUnsupported) || !errors.Is(err, fs.ErrNotExist) || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: %v, want %q at the end", name, err, want)
		}
	}
}

// BenchmarkPack packs real servers: what a new image of one costs.
func BenchmarkPack(b *testing.B) {
	for _, name := range []string{"nginx", "postgres", "redis-server"} {
		b.Run(name, func(b *testing.B) {
			if _, err := (pack.Host{}).Pack(name); errors.Is(err, fs.ErrNotExist) {
				b.Skip(err)
			}
			for b.Loop() {
				s, err := pack.Host{}.Pack(name)
				if err != nil {
					b.Fatal(err)
				}
				size := counter(0)
				if err := pack.WriteLayer(b.Context(), &size, s.Entries); err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(size), "layer-B")
			}
		})
	}
}

// A counter counts what is written.
type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}
