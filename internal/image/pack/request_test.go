package pack_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/image/pack"
)

// packed packs below a root.
func packed(t *testing.T, root string, r pack.Request) *pack.Set {
	t.Helper()
	s, err := pack.Host{Root: root}.Pack(r)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// root makes a workshop with a static program, /prog.
func root(t *testing.T) workshop {
	t.Helper()
	w := newWorkshop(t)
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

// added are the entries that a request adds to those of /prog.
func added(t *testing.T, w workshop, r pack.Request) (out []string) {
	t.Helper()
	r.Programs = []string{"/prog"}
	without := packed(t, w.dir, pack.Request{Programs: r.Programs})
	for _, e := range packed(t, w.dir, r).Entries {
		if !slices.ContainsFunc(without.Entries, func(o pack.Entry) bool { return o.Path == e.Path }) {
			line := e.Mode.String() + " " + e.Path
			if e.Target != "" {
				line += " -> " + e.Target
			}
			out = append(out, line)
		}
	}
	return out
}

func TestFiles(t *testing.T) {
	for _, test := range []struct {
		name  string
		make  func(w workshop)
		files []pack.File
		want  []string
	}{
		{"a file", func(w workshop) { w.text("srv/a", "1") }, []pack.File{{Source: "/srv/a"}}, []string{"drwxr-xr-x /srv", "-rw-r--r-- /srv/a"}},
		{"elsewhere", func(w workshop) { w.text("srv/a", "1") }, []pack.File{{Source: "/srv/a", Dest: "/x/y/b"}}, []string{"drwxr-xr-x /x", "drwxr-xr-x /x/y", "-rw-r--r-- /x/y/b"}},
		{"through a link", func(w workshop) { w.text("srv/a", "1"); w.symlink("srv", "link") }, []pack.File{{Source: "/link/a"}}, []string{"drwxr-xr-x /link", "-rw-r--r-- /link/a"}},
		{"a directory", func(w workshop) {
			w.text("srv/d/a", "1")
			w.text("srv/d/e/b", "2")
			w.symlink("../nowhere", "srv/d/l")
		}, []pack.File{{Source: "/srv/d", Dest: "/x"}}, []string{"drwxr-xr-x /x", "-rw-r--r-- /x/a", "drwxr-xr-x /x/e", "-rw-r--r-- /x/e/b", "Lrwxrwxrwx /x/l -> ../nowhere"}},
		{"into a link of the image", func(w workshop) {
			w.text("srv/d/a", "1")
			w.symlink("e", "srv/d/l")
		}, []pack.File{{Source: "/srv/d", Dest: "/d"}, {Source: "/srv/d/a", Dest: "/d/l/b"}}, []string{"drwxr-xr-x /d", "-rw-r--r-- /d/a", "drwxr-xr-x /d/e", "-rw-r--r-- /d/e/b", "Lrwxrwxrwx /d/l -> e"}},
		{"a link that leads out ends at the root", func(w workshop) {
			w.symlink("../../../../x", "srv/d/l")
			w.text("srv/a", "1")
		}, []pack.File{{Source: "/srv/d", Dest: "/d"}, {Source: "/srv/a", Dest: "/d/l/b"}}, []string{"drwxr-xr-x /d", "Lrwxrwxrwx /d/l -> ../../../../x", "drwxr-xr-x /x", "-rw-r--r-- /x/b"}},
		{"an executable", func(w workshop) {
			w.text("srv/a", "1")
			_ = os.Chmod(w.path("srv/a"), 0o4751) // a failure shows in the mode
		}, []pack.File{{Source: "/srv/a"}}, []string{"drwxr-xr-x /srv", "-rwxr-xr-x /srv/a"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := root(t)
			test.make(w)
			if diff := cmp.Diff(test.want, added(t, w, pack.Request{Files: test.files})); diff != "" {
				t.Errorf("entries (-want +got):\n%s", diff)
			}
		})
	}
}

// TestFileReplaces lets a file of the user take the place of one that is made.
func TestFileReplaces(t *testing.T) {
	w := root(t)
	w.text("srv/hosts", "127.0.0.1 me\n")
	s := packed(t, w.dir, pack.Request{Programs: []string{"/prog"}, Files: []pack.File{{Source: "/srv/hosts", Dest: "/etc/hosts"}}})
	if e := find(t, s, "/etc/hosts"); e.Data != nil || e.Size != 13 {
		t.Errorf("/etc/hosts = %+v, want the file of 13 bytes", e)
	}
}

func TestFilesRefused(t *testing.T) {
	w := root(t)
	w.text("srv/a", "1")
	if err := syscall.Mkfifo(w.path("pipes/p"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.symlink("loop", "srv/d/loop")
	for _, test := range []struct {
		files []pack.File
		want  string
	}{
		{[]pack.File{{Source: "/nowhere"}}, "/nowhere"},
		{[]pack.File{{Source: "/srv/a", Dest: "relative"}}, "want an absolute path"},
		{[]pack.File{{Source: "/srv/a", Dest: "/x/../../y"}}, "want an absolute path"},
		{[]pack.File{{Source: "/srv/a", Dest: "/"}}, "want an absolute path"},
		{[]pack.File{{Source: "/srv/a", Dest: "/proc/x"}}, "something else in a container"},
		{[]pack.File{{Source: "/srv/a", Dest: "/dev"}}, "something else in a container"},
		{[]pack.File{{Source: "/dev/null"}}, "something else in a container"},
		{[]pack.File{{Source: "/proc"}}, "something else in a container"},
		{[]pack.File{{Source: "/pipes/p"}}, "not a regular file"},
		{[]pack.File{{Source: "/pipes"}}, "not a regular file"},
		{[]pack.File{{Source: "/srv/a", Dest: "/tmp"}}, "is a directory"},
		{[]pack.File{{Source: "/srv/a", Dest: "/prog/x"}}, "not a directory"},
		{[]pack.File{{Source: "/srv", Dest: "/prog"}}, "not a directory"},
		{[]pack.File{{Source: "/srv/d", Dest: "/d"}, {Source: "/srv/a", Dest: "/d/loop/x"}}, "too many levels"},
	} {
		_, err := pack.Host{Root: w.dir}.Pack(pack.Request{Programs: []string{"/prog"}, Files: test.files})
		if !errors.Is(err, bench.ErrUnsupported) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v: %v, want bench.ErrUnsupported that says %q", test.files, err, test.want)
		}
	}
}

// TestModule takes an object by its name, with the library that only it needs.
func TestModule(t *testing.T) {
	w := newWorkshop(t)
	w.dir = unpack(t, program(t, pack.Host{}, "/bin/sh"))
	w.program("bin/prog")
	w.library("usr/lib/mod.so", w.library("usr/lib/libone.so"))
	r := pack.Request{Programs: []string{"/bin/prog"}, Files: []pack.File{{Source: "/usr/lib/mod.so"}}}
	got := taken(packed(t, w.dir, r))
	for _, want := range []string{"/usr/lib/mod.so", "/usr/lib/libone.so"} {
		if !slices.Contains(got, want) {
			t.Errorf("%s is not in %q", want, got)
		}
	}
	if err := os.Remove(filepath.Join(w.dir, "usr/lib/libone.so")); err != nil {
		t.Fatal(err)
	}
	_, err := pack.Host{Root: w.dir}.Pack(r)
	if !errors.Is(err, bench.ErrUnsupported) || !strings.Contains(err.Error(), "/usr/lib/mod.so needs the library libone.so, which is not in") {
		t.Errorf("without its library: %v, want bench.ErrUnsupported that says what needs what", err)
	}
}

const accounts = `root:x:0:0:root:/root:/bin/bash
web:x:33:34:gecos, of any kind:/srv/web:/bin/false
bad:x:-1:33::/:/bin/sh
none:x:4294967295:33::/:/bin/sh
short:x:1
lost:x:77:77::relative/../home:/bin/sh
`

func TestUsers(t *testing.T) {
	w := root(t)
	w.text("etc/passwd", accounts)
	w.text("etc/group", "root:x:0:\nweb-own:x:34:\nlogs:x:4:sys,web\nother:x:5:webb\n:x:6:web\n")
	s := packed(t, w.dir, pack.Request{Programs: []string{"/prog"}, Users: []string{"web", "lost"}})
	passwd := "root:x:0:0:root:/:/sbin/nologin\nnobody:x:65534:65534:nobody:/:/sbin/nologin\n" +
		"web:x:33:34::/srv/web:/sbin/nologin\nlost:x:77:77::/:/sbin/nologin\n"
	if diff := cmp.Diff(passwd, string(find(t, s, "/etc/passwd").Data)); diff != "" {
		t.Errorf("passwd (-want +got):\n%s", diff)
	}
	group := "root:x:0:\nnogroup:x:65534:\nweb-own:x:34:\nlogs:x:4:web\nlost:x:77:\n"
	if diff := cmp.Diff(group, string(find(t, s, "/etc/group").Data)); diff != "" {
		t.Errorf("group (-want +got):\n%s", diff)
	}
	if home := find(t, s, "/srv/web"); !home.Mode.IsDir() || home.UID != 33 || home.GID != 34 {
		t.Errorf("home = %+v, want a directory of 33:34", home)
	}
	if s.Process.User != "web" {
		t.Errorf("user = %q, want web", s.Process.User)
	}
	for _, name := range []string{"nobody-here", "bad", "none", "short", "", "x:y"} {
		_, err := pack.Host{Root: w.dir}.Pack(pack.Request{Programs: []string{"/prog"}, Users: []string{name}})
		if !errors.Is(err, bench.ErrUnsupported) || !strings.Contains(err.Error(), "etc/passwd has none") {
			t.Errorf("user %q: %v, want bench.ErrUnsupported", name, err)
		}
	}
}

func TestProcess(t *testing.T) {
	w := root(t)
	given := pack.Process{Entrypoint: []string{"/prog", "-x"}, Cmd: []string{"y"}, Env: []string{"A=1"}, Dir: "/work/here", Ports: []string{"8080/tcp", "53/udp"}}
	s := packed(t, w.dir, pack.Request{Programs: []string{"/prog"}, Process: given})
	want := given
	want.Env = []string{"PATH=/:" + pack.SearchPath, "A=1"}
	if diff := cmp.Diff(want, s.Process); diff != "" {
		t.Errorf("process (-want +got):\n%s", diff)
	}
	find(t, s, "/work/here")
	for _, dir := range []string{"relative", "/a/../b"} {
		if _, err := (pack.Host{Root: w.dir}).Pack(pack.Request{Programs: []string{"/prog"}, Process: pack.Process{Dir: dir}}); err == nil {
			t.Errorf("working directory %q: no error", dir)
		}
	}
}

// TestSeveral packs two programs: files that both need are there once.
func TestSeveral(t *testing.T) {
	w := newWorkshop(t)
	one := w.program("bin/one", w.library("lib/libone.so"), runpath+"$ORIGIN/../lib")
	two := w.program("bin/two", filepath.Join(w.dir, "lib/libone.so"), w.library("lib/libtwo.so"), runpath+"$ORIGIN/../lib")
	s := packed(t, "", pack.Request{Programs: []string{one, two}})
	got := slices.DeleteFunc(taken(s), func(file string) bool { return !strings.HasPrefix(file, w.dir) })
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

// executable writes a file that can be run.
func (w workshop) executable(name, text string) string {
	w.t.Helper()
	file := w.path(name)
	if err := os.WriteFile(file, []byte(text), 0o755); err != nil {
		w.t.Fatal(err)
	}
	return file
}

func TestScript(t *testing.T) {
	w := root(t)
	w.executable("plain", "#!/prog -x\n")
	w.executable("nested", "#! /plain\n")
	w.executable("loop", "#!/loop\n")
	w.executable("lost", "#!/nowhere\n")
	w.executable("relative", "#!prog\n")
	s := packed(t, w.dir, pack.Request{Programs: []string{"/nested"}, Scripts: true})
	if diff := cmp.Diff([]string{"/nested", "/plain", "/prog"}, taken(s)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"/nested", "/plain"}, s.Scripts); diff != "" || s.Process.Entrypoint[0] != "/nested" {
		t.Errorf("entry point %q, scripts (-want +got):\n%s", s.Process.Entrypoint, diff)
	}
	if by := find(t, s, "/prog").Wanted; by != "/plain" {
		t.Errorf("/prog is needed by %q, want /plain", by)
	}
	for name, want := range map[string]string{
		"/lost":     `/lost is a script for "/nowhere": `,
		"/relative": "not an absolute path",
		"/loop":     "is a script",
	} {
		_, err := pack.Host{Root: w.dir}.Pack(pack.Request{Programs: []string{name}, Scripts: true})
		if !errors.Is(err, bench.ErrUnsupported) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want bench.ErrUnsupported that says %q", name, err, want)
		}
	}
}

// TestEnv packs what env finds for a script.
func TestEnv(t *testing.T) {
	w := newWorkshop(t)
	script := w.executable("script", "#!/usr/bin/env -S sh -e\n")
	s := packed(t, "", pack.Request{Programs: []string{script}, Scripts: true})
	sh, err := pack.Find("sh")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{script, real(t, "/usr/bin/env"), real(t, sh)} {
		if !slices.Contains(taken(s), want) {
			t.Errorf("%s is not in %q", want, taken(s))
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

// TestPostgresRecipe packs the newest of several PostgreSQLs that are in no PATH,
// with its data and not another's.
func TestPostgresRecipe(t *testing.T) {
	w := root(t)
	for _, v := range []string{"9.6", "16", "15"} {
		for _, name := range []string{"postgres", "initdb", "setpriv"} {
			w.link("usr/lib/postgresql/"+v+"/bin/"+name, []string{"-static", "-Wl,-e,main"})
		}
		w.text("usr/share/postgresql/"+v+"/postgres.bki", v)
		w.text("usr/share/postgresql/"+v+"/timezonesets/Default", v)
	}
	w.link("bin/sh", []string{"-static", "-Wl,-e,main"})
	w.text("usr/share/zoneinfo/UTC", "")
	w.text("usr/share/zoneinfo/posix/UTC", "")
	t.Setenv("PATH", "/nowhere")
	s := packed(t, w.dir, pack.Request{Programs: []string{"postgres"}})
	want := []string{
		"/bin/sh", "/usr/lib/postgresql/16/bin/initdb", "/usr/lib/postgresql/16/bin/postgres", "/usr/lib/postgresql/16/bin/setpriv",
		"/usr/share/postgresql/16/postgres.bki", "/usr/share/postgresql/16/timezonesets/Default", "/usr/share/zoneinfo/UTC",
	}
	if diff := cmp.Diff(want, taken(s)); diff != "" {
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
	_, err := pack.Host{Root: w.dir}.Pack(pack.Request{Programs: []string{"postgres"}})
	if !errors.Is(err, bench.ErrUnsupported) || !strings.Contains(err.Error(), "needs the program setpriv") {
		t.Errorf("without setpriv: %v, want bench.ErrUnsupported that names it", err)
	}
}

// TestRecipeByName applies a recipe to a program of another name.
func TestRecipeByName(t *testing.T) {
	w := root(t)
	s := packed(t, w.dir, pack.Request{Programs: []string{"/prog"}, Recipe: "nginx"})
	want := []string{"/prog", "-g", "daemon off;"}
	if diff := cmp.Diff(want, s.Process.Entrypoint); diff != "" {
		t.Errorf("entry point (-want +got):\n%s", diff)
	}
	if conf := find(t, s, "/etc/nginx/nginx.conf"); !conf.Made() || conf.Wanted != "/prog" || find(t, s, "/prog").Made() {
		t.Errorf("%+v, want a file that was made for /prog, which was not", conf)
	}
	if _, err := (pack.Host{Root: w.dir}).Pack(pack.Request{Programs: []string{"/prog"}, Recipe: "apache"}); !errors.Is(err, bench.ErrUnsupported) || !strings.Contains(err.Error(), "there are nginx, ") {
		t.Errorf("unknown recipe: %v, want bench.ErrUnsupported that lists them", err)
	}
}

func TestPorts(t *testing.T) {
	w := root(t)
	for _, test := range []struct {
		name string
		want pack.Process
		got  []string
	}{
		{"the recipe's", pack.Process{}, []string{"80/tcp"}},
		{"others instead", pack.Process{Ports: []string{"8080/tcp"}}, []string{"8080/tcp"}},
		{"none of another program", pack.Process{Entrypoint: []string{"/x"}}, nil},
		{"said of another program", pack.Process{Entrypoint: []string{"/x"}, Ports: []string{"53/udp"}}, []string{"53/udp"}},
	} {
		s := packed(t, w.dir, pack.Request{Programs: []string{"/prog"}, Recipe: "nginx", Process: test.want})
		if diff := cmp.Diff(test.got, s.Process.Ports); diff != "" {
			t.Errorf("%s: ports (-want +got):\n%s", test.name, diff)
		}
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
		s := packed(t, "", pack.Request{Programs: []string{"redis"}})
		if want := filepath.Join(w.dir, name); s.Program != want || len(s.Process.Cmd) == 0 {
			t.Errorf("%s %q, want %s with what the recipe says", s.Program, s.Process.Cmd, want)
		}
	}
	t.Setenv("PATH", "/nowhere")
	for name, want := range map[string]string{"redis": "redis-server", "no-such-program": "no-such-program"} {
		_, err := pack.Host{}.Pack(pack.Request{Programs: []string{name}})
		want = `no program "` + want + `" in PATH, /usr/sbin or /sbin: install it, or name its file`
		if !errors.Is(err, bench.ErrUnsupported) || !errors.Is(err, fs.ErrNotExist) || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: %v, want %q at the end", name, err, want)
		}
	}
}

// TestRPM asks a program that answers as rpm does.
func TestRPM(t *testing.T) {
	w := root(t)
	w.text("var/lib/rpm/rpmdb.sqlite", "")
	bin := filepath.Dir(w.executable("fake/rpm", `#!/bin/sh
[ "$1" = --root ] || exit 9
case "$*" in
*" -f -- "*) printf 'one-1-1.x86_64\ntwo-2-1.x86_64\nfile /opt/three is not owned by any package\none-1-1.x86_64\n'; exit 1;;
*"-- one-1-1.x86_64 two-2-1.x86_64") printf 'one\t/usr/bin/one\none\t/usr/share/doc/one\ntwo\t/lib/libtwo.so\n';;
*) exit 9;;
esac
`))
	t.Setenv("PATH", bin)
	w.path("usr/lib/x")
	w.symlink("usr/lib", "lib")
	files := []pack.Entry{{Origin: "/usr/bin/one"}, {Origin: "/usr/lib/libtwo.so"}, {Origin: "/opt/three"}}
	got, known, err := pack.Host{Root: w.dir}.Packages(t.Context(), files)
	want := map[string]string{"/usr/bin/one": "one", "/usr/lib/libtwo.so": "two"}
	if diff := cmp.Diff(want, got); diff != "" || !known || err != nil {
		t.Errorf("%v, %v (-want +got):\n%s", known, err, diff)
	}
	w.executable("fake/rpm", "#!/bin/sh\nexec yes\n")
	if _, _, err := (pack.Host{Root: w.dir}).Packages(t.Context(), files); err == nil || !strings.Contains(err.Error(), "prints more than") {
		t.Errorf("endless output: %v, want an error that says so", err)
	}
}

// BenchmarkPack packs real servers: what a new image of one costs.
func BenchmarkPack(b *testing.B) {
	for _, name := range []string{"nginx", "postgres", "redis-server"} {
		b.Run(name, func(b *testing.B) {
			if _, err := (pack.Host{}).Pack(pack.Request{Programs: []string{name}}); errors.Is(err, fs.ErrNotExist) {
				b.Skip(err)
			}
			for b.Loop() {
				s, err := pack.Host{}.Pack(pack.Request{Programs: []string{name}})
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
