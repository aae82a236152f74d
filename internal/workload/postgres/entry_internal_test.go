package postgres

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/enginetest"
	"github.com/tare-bench/tare/internal/image"
	"github.com/tare-bench/tare/internal/image/imagetest"
	"github.com/tare-bench/tare/internal/workload/localtest"
)

// The program of an entry point is looked up as a runtime does it, in the image and nowhere else.
func TestEntryPoint(t *testing.T) {
	lib := image.NewLibrary(t.TempDir())
	for name, tt := range map[string]struct {
		process map[string]any
		want    []string // nil = it is refused
	}{
		"a path":          {map[string]any{"Entrypoint": []string{"/a/b"}, "Cmd": []string{"c"}}, []string{"/a/b", "c"}},
		"a relative path": {map[string]any{"Cmd": []string{"./b"}, "WorkingDir": "/a"}, []string{"/a/b"}},
		"a name": {
			map[string]any{"Cmd": []string{"kept", "c"}, "Env": []string{"PATH=:rel:/bin:/none/../etc"}},
			[]string{"/etc/kept", "c"},
		},
		"a directory":     {map[string]any{"Cmd": []string{"etc"}, "Env": []string{"PATH=/"}}, nil},
		"by a link":       {map[string]any{"Cmd": []string{"sh"}, "Env": []string{"PATH=/out"}}, nil}, // out of the image
		"of this host":    {map[string]any{"Cmd": []string{"sh"}, "Env": []string{"PATH=/bin:/../../bin:/usr/bin"}}, nil},
		"without a PATH":  {map[string]any{"Cmd": []string{"kept"}}, nil},
		"nothing to run":  {map[string]any{}, nil},
		"an empty string": {map[string]any{"Cmd": []string{""}, "Env": []string{"PATH=/etc"}}, nil},
	} {
		img, err := lib.Resolve(t.Context(), imagetest.LayeredWith(t, []byte("no program"), runtime.GOARCH, tt.process))
		if err != nil {
			t.Fatal(err)
		}
		root, err := img.Rootfs(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink("/bin", filepath.Join(root, "out")); err != nil && !errors.Is(err, fs.ErrExist) {
			t.Fatal(err)
		}
		got, err := entryPoint(t.Context(), img)
		if diff := cmp.Diff(tt.want, got); diff != "" || (err == nil) != (tt.want != nil) ||
			err != nil && !errors.Is(err, bench.ErrUnsupported) {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
	}
}

// What an entry point cannot do is refused before the run, with a way out.
func TestCheckEntry(t *testing.T) {
	container, plain := bench.Engine(enginetest.NewFake(enginetest.FakeConfig{})), localtest.Native(t)
	for name, tt := range map[string]struct {
		engine bench.Engine
		spec   bench.Spec
		params map[string]string
		want   string
	}{
		"the usual one":   {plain, bench.Spec{}, map[string]string{"entry": entryTare, "ssl": "yes"}, ""},
		"in a container":  {container, bench.Spec{}, map[string]string{"entry": entryImage}, ""},
		"a plain process": {plain, bench.Spec{}, map[string]string{"entry": entryImage}, "has no image"},
		"a socket": {
			container, bench.Spec{Reach: bench.ReachSocket}, map[string]string{"entry": entryImage}, "use another network",
		},
		"TLS":          {container, bench.Spec{}, map[string]string{"entry": entryImage, "ssl": "yes"}, "no certificate"},
		"a cold cache": {container, bench.Spec{}, map[string]string{"entry": entryImage, "cache": cold}, "they are warm"},
	} {
		got := checkEntry(bench.Task{Engine: tt.engine, Spec: tt.spec, Params: tt.params})
		if (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

// An entry point gets the settings of the cell, but for the directory of sockets, where it talks to its own server.
func TestEntrySettings(t *testing.T) {
	o := options{server: map[string]string{"fsync": "off"}, settings: steady, entry: true}
	all := serverSettings(o, 150000, place{addresses: "*", port: 5432})
	if slices.ContainsFunc(all, func(s setting) bool { return s.name == "unix_socket_directories" }) ||
		!slices.Contains(all, setting{"fsync", "off"}) || !slices.Contains(all, setting{"listen_addresses", "*"}) {
		t.Errorf("settings %v", all)
	}
}

func TestVersionNumber(t *testing.T) {
	for text, want := range map[string]int{
		"15": 150000, "11": 110000, "10": 0, "9": 0, "9.6": 0, "": 0, "99999999999999999999": 0,
	} {
		if got, err := versionNumber(text); got != want || (err == nil) != (want > 0) {
			t.Errorf("%q: %d, %v, want %d", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)\n": "15", "postgres (PostgreSQL) 18beta1\n": "18",
		"x 15\n": "",
	} {
		got := ""
		if found := toldVersion.FindStringSubmatch(text); found != nil {
			got = found[1]
		}
		if got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
