package image_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	imagename "github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/tare-bench/tare/internal/agent"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/image"
	"github.com/tare-bench/tare/internal/image/imagetest"
)

func resolve(tb testing.TB, lib *image.Library, ref string) *image.Image {
	tb.Helper()
	img, err := lib.Resolve(tb.Context(), ref)
	if err != nil {
		tb.Fatal(err)
	}
	return img
}

func TestAgentImage(t *testing.T) {
	lib := imagetest.Library(t)
	img := resolve(t, lib, "")
	if img != resolve(t, lib, image.Agent) {
		t.Error("the empty reference is another image than Agent")
	}
	dir, err := img.Rootfs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, line := range tree(t, dir) {
		name, _, _ := strings.Cut(line, ":")
		names = append(names, name)
	}
	want := []string{"dev/", "etc/", "etc/group", "etc/passwd", "proc/", "sys/", "tare-agent", "tare-data/", "tmp/"}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("files differ (-want +got):\n%s", diff)
	}
	out, err := exec.Command(filepath.Join(dir, agent.Path), "mark").Output()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := agent.ParseMark(out); err != nil {
		t.Error(err)
	}
}

// The digest depends on the binary and the architecture and on nothing else.
func TestAgentImageIsReproducible(t *testing.T) {
	want := map[string]string{
		"amd64": "sha256:62bd063171711c0746dfc2a77b84ad64a92a937e2e718d1a89cec592cba5b859",
		"arm64": "sha256:f52baa22a72b08b877a06f10a9a88c16910227ecccf26348a77d4b96527f3cb5",
	}[runtime.GOARCH]
	img := resolve(t, image.NewLibrary(t.TempDir(), image.WithAgent([]byte("program"))), image.Agent)
	if img.Digest() != want {
		t.Errorf("digest %s, want %s", img.Digest(), want)
	}
}

func TestAgentBinary(t *testing.T) {
	name := filepath.Join("agentbin", runtime.GOARCH, "tare-agent")
	built, err := os.ReadFile(name)
	got, embedErr := image.AgentBinary()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if !errors.Is(embedErr, fs.ErrNotExist) || !strings.Contains(embedErr.Error(), "make build") {
			t.Errorf("error %v, want one that says how to build %s", embedErr, name)
		}
	case err != nil:
		t.Fatal(err)
	case embedErr != nil || !bytes.Equal(built, got):
		t.Errorf("%d bytes embedded, %v, want the %d of %s", len(got), embedErr, len(built), name)
	}
}

func TestImageConfig(t *testing.T) {
	c := config()
	c.Config = v1.Config{
		Entrypoint: []string{"/run"}, Cmd: []string{"a", "b"}, Env: []string{"A=1"}, WorkingDir: "/srv", User: "7:8",
	}
	full := withConfig(t, c)
	bare := withConfig(t, config())
	if diff := cmp.Diff([]string{"A=1"}, full.Env()); diff != "" || full.WorkingDir() != "/srv" || full.User() != "7:8" {
		t.Errorf("environment %q, directory %q, user %q", full.Env(), full.WorkingDir(), full.User())
	}
	if bare.Env() != nil || bare.WorkingDir() != "/" || bare.User() != "" {
		t.Errorf("bare image: environment %q, directory %q, user %q", bare.Env(), bare.WorkingDir(), bare.User())
	}
	for _, test := range []struct {
		name string
		img  *image.Image
		argv []string
		want []string
		ok   bool
	}{
		{"the image's", full, nil, []string{"/run", "a", "b"}, true},
		{"the spec's", full, []string{"/x", "y"}, []string{"/x", "y"}, true},
		{"only the spec's", bare, []string{"/x"}, []string{"/x"}, true},
		{"none", bare, nil, nil, false},
	} {
		got, err := test.img.Argv(bench.Spec{Argv: test.argv})
		if diff := cmp.Diff(test.want, got); diff != "" || (err == nil) != test.ok {
			t.Errorf("%s: argv %q, %v, want %q", test.name, got, err, test.want)
		}
	}
}

// withConfig resolves an image with a configuration and no layers.
func withConfig(t *testing.T, c v1.ConfigFile) *image.Image {
	t.Helper()
	ref := writeTar(t, map[string][]byte{"c": marshal(t, c), "manifest.json": []byte(`[{"Config":"c"}]`)})
	return resolve(t, image.NewLibrary(t.TempDir()), ref)
}

// One image has one digest and one set of files, however it is packed.
func TestPackings(t *testing.T) {
	base := imagetest.Archive(t, dir("a"), file("a/b", "1"), file("c", "1"))
	top := imagetest.Archive(t, file("c", "2"), file("a/.wh.b", ""))
	want := []string{"a/", "c: 2"}
	docker := saved(t, base, top, top)
	img := build(t, base, top, top)
	for name, ref := range map[string]string{
		"docker save":             docker,
		"docker save, links":      savedWithLinks(t, base, top),
		"tarball of the library":  tarballRef(t, img),
		"layout":                  layoutRef(t, img, nil),
		"layout of platforms":     layoutRef(t, img, &v1.Platform{OS: "linux", Architecture: runtime.GOARCH}),
		"layout, nested":          nestedRef(t, img),
		"archive of a layout":     tarOf(t, layoutRef(t, img, nil)),
		"archive written by tare": rewritten(t, docker),
		"and from a layout":       rewritten(t, layoutRef(t, img, nil)),
	} {
		t.Run(name, func(t *testing.T) {
			lib := image.NewLibrary(t.TempDir())
			got := resolve(t, lib, ref)
			if config, err := img.ConfigName(); err != nil || got.Digest() != config.String() || got.Ref() != ref {
				t.Errorf("digest %s of %s, want %s of %s, %v", got.Digest(), got.Ref(), config, ref, err)
			}
			dir, err := got.Rootfs(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, tree(t, dir)); diff != "" {
				t.Errorf("files differ (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAgentArchive(t *testing.T) {
	lib := imagetest.Library(t)
	img := resolve(t, lib, image.Agent)
	var first, second bytes.Buffer
	for _, w := range []io.Writer{&first, &second} {
		if err := img.WriteDockerArchive(w, "tare.local/run/agent:1"); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Error("two archives of one image differ")
	}
	name := filepath.Join(t.TempDir(), "a.tar")
	if err := os.WriteFile(name, first.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := resolve(t, lib, "tar:"+name); got.Digest() != img.Digest() {
		t.Errorf("digest %s, want %s", got.Digest(), img.Digest())
	}
	m, err := tarball.LoadManifest(func() (io.ReadCloser, error) { return os.Open(name) })
	if err != nil || len(m) != 1 || !cmp.Equal(m[0].RepoTags, []string{"tare.local/run/agent:1"}) {
		t.Errorf("manifest %+v, %v, want the tag", m, err)
	}
}

func TestArchiveToBrokenPipe(t *testing.T) {
	img := resolve(t, imagetest.Library(t), image.Agent)
	r, w := io.Pipe()
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if err := img.WriteDockerArchive(w, ""); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("error %v, want io.ErrClosedPipe", err)
	}
}

// build makes an image of gzipped layers with the library's own means.
func build(t *testing.T, layers ...[]byte) v1.Image {
	t.Helper()
	c := config(layers...)
	var add []mutate.Addendum
	for _, b := range layers {
		l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b)), nil })
		if err != nil {
			t.Fatal(err)
		}
		add = append(add, mutate.Addendum{Layer: l})
	}
	img, err := mutate.Append(mutate.MediaType(empty.Image, types.OCIManifestSchema1), add...)
	if err != nil {
		t.Fatal(err)
	}
	if img, err = mutate.ConfigFile(img, &c); err != nil {
		t.Fatal(err)
	}
	return img
}

func tarballRef(t *testing.T, img v1.Image) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "tarball.tar")
	if err := tarball.WriteToFile(name, imagename.MustParseReference("a:b"), img); err != nil {
		t.Fatal(err)
	}
	return "tar:" + name
}

func layoutRef(t *testing.T, img v1.Image, platform *v1.Platform) string {
	t.Helper()
	index := mutate.AppendManifests(empty.Index,
		mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: platform}})
	return indexRef(t, index)
}

// nestedRef is a layout as builders write it: an index of one index, with an
// image of another machine and an attestation beside ours, which is there twice.
func nestedRef(t *testing.T, img v1.Image) string {
	t.Helper()
	on := func(add mutate.Appendable, os, arch string) mutate.IndexAddendum {
		return mutate.IndexAddendum{Add: add, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: os, Architecture: arch}}}
	}
	other := build(t, imagetest.Archive(t, file("other", "")))
	inner := mutate.AppendManifests(empty.Index,
		on(img, "linux", runtime.GOARCH), on(img, "linux", runtime.GOARCH), on(other, "linux", "s390x"),
		on(other, "unknown", "unknown"))
	return indexRef(t, mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: inner}))
}

func indexRef(t *testing.T, index v1.ImageIndex) string {
	t.Helper()
	dir := t.TempDir()
	if _, err := layout.Write(dir, index); err != nil {
		t.Fatal(err)
	}
	return "oci:" + dir
}

// tarOf packs a layout's directory.
func tarOf(t *testing.T, ref string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "layout.tar")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	tw := tar.NewWriter(f)
	if err := tw.AddFS(os.DirFS(strings.TrimPrefix(ref, "oci:"))); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(tw.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
	return "tar:" + name
}

// rewritten resolves an image and writes it again.
func rewritten(t *testing.T, ref string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "rewritten.tar")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	img := resolve(t, image.NewLibrary(t.TempDir()), ref)
	if err := errors.Join(img.WriteDockerArchive(f, "a:b"), f.Close()); err != nil {
		t.Fatal(err)
	}
	return "tar:" + name
}

// savedWithLinks is base, top and top again as older dockers save it.
func savedWithLinks(t *testing.T, base, top []byte) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "links.tar")
	b := imagetest.Archive(t,
		file("c.json", string(marshal(t, config(base, top, top)))),
		file("0/layer.tar", string(base)), file("1/layer.tar", string(top)), symlink("2/layer.tar", "../1/layer.tar"),
		file("manifest.json", `[{"Config":"c.json","Layers":["0/layer.tar","1/layer.tar","2/layer.tar"]}]`))
	if err := os.WriteFile(name, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return "tar:" + name
}

func TestResolveForeign(t *testing.T) {
	lib := image.NewLibrary(t.TempDir())
	for _, ref := range []string{"debian", "debian:12", "docker.io/library/nginx@sha256:00", "oci", ":", "agent:1"} {
		if _, err := lib.Resolve(t.Context(), ref); !errors.Is(err, image.ErrForeign) || !strings.Contains(err.Error(), ref) {
			t.Errorf("Resolve(%q): error %v, want one that wraps ErrForeign and names it", ref, err)
		}
	}
}

// The beginning of a name alone is none, of an engine's neither.
func TestResolveRefusesNothing(t *testing.T) {
	for ref, want := range map[string]string{
		"oci:": "it needs a directory: oci:DIR", "tar:": "it needs a file: tar:FILE",
		"host:": "it needs a program: host:PROGRAM", "docker:": "it needs a name: docker://REF", "docker://": "use docker://",
	} {
		_, err := image.NewLibrary(t.TempDir()).Resolve(t.Context(), ref)
		if err == nil || errors.Is(err, image.ErrForeign) || !strings.Contains(err.Error(), `image "`+ref+`": `) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("Resolve(%q): error %v, want one that names it and says %q", ref, err, want)
		}
	}
}

func TestResolveRefuses(t *testing.T) {
	other := config()
	other.Architecture = "s390x"
	index := func(d ...v1.Descriptor) []byte { return marshal(t, v1.IndexManifest{SchemaVersion: 2, Manifests: d}) }
	of := func(kind types.MediaType, b []byte) v1.Descriptor {
		return v1.Descriptor{MediaType: kind, Digest: digest(b), Size: int64(len(b))}
	}
	blob := func(b []byte) string { return "blobs/sha256/" + digest(b).Hex }
	manifest := func(c []byte, layers ...v1.Descriptor) []byte {
		return marshal(t, v1.Manifest{SchemaVersion: 2, Config: of(types.OCIConfigJSON, c), Layers: layers})
	}
	ours, theirs := marshal(t, config()), marshal(t, other)
	second := config()
	second.Author = "somebody else"
	ourManifest, theirManifest, secondManifest := manifest(ours), manifest(theirs), manifest(marshal(t, second))
	foreign := manifest(ours, v1.Descriptor{MediaType: types.DockerForeignLayer, Digest: digest(nil)})
	many := manifest(ours, slices.Repeat([]v1.Descriptor{of(types.OCILayer, nil)}, 1001)...)
	for _, test := range []struct {
		name  string
		files map[string][]byte
		want  error  // what the error wraps, or nil
		says  string // what it names
	}{
		{"empty", nil, fs.ErrNotExist, "index.json"},
		{"broken index", map[string][]byte{"index.json": []byte("{")}, nil, "index"},
		{"endless index", map[string][]byte{"index.json": make([]byte, 5<<20)}, nil, "longer than"},
		{"nothing listed", map[string][]byte{"index.json": index()}, image.ErrPlatform, runtime.GOARCH},
		{"other platform", map[string][]byte{
			"index.json":        index(of(types.OCIManifestSchema1, theirManifest)),
			blob(theirManifest): theirManifest, blob(theirs): theirs,
		}, image.ErrPlatform, "linux/s390x"},
		{"other platform listed", map[string][]byte{
			"index.json": index(v1.Descriptor{
				MediaType: types.OCIManifestSchema1, Digest: digest(nil),
				Platform: &v1.Platform{OS: "plan9", Architecture: "amd64"},
			}),
		}, image.ErrPlatform, "plan9/amd64"},
		{"platform is a lie", map[string][]byte{"index.json": index(v1.Descriptor{
			MediaType: types.OCIManifestSchema1, Digest: digest(theirManifest),
			Platform: &v1.Platform{OS: "linux", Architecture: runtime.GOARCH},
		}), blob(theirManifest): theirManifest, blob(theirs): theirs}, image.ErrPlatform, "linux/s390x"},
		{"two images", map[string][]byte{
			"index.json": index(of(types.OCIManifestSchema1, ourManifest),
				of(types.OCIManifestSchema1, secondManifest)), blob(ourManifest): ourManifest, blob(ours): ours,
			blob(secondManifest): secondManifest, blob(marshal(t, second)): marshal(t, second),
		}, nil, "2 images"},
		{"manifest missing", map[string][]byte{"index.json": index(of(types.OCIManifestSchema1, ourManifest))}, fs.ErrNotExist, digest(ourManifest).Hex},
		{"manifest changed", map[string][]byte{
			"index.json": index(of(types.OCIManifestSchema1, ourManifest)), blob(ourManifest): theirManifest,
		}, image.ErrDigest, digest(ourManifest).Hex},
		{"configuration changed", map[string][]byte{
			"index.json": index(of(types.OCIManifestSchema1, ourManifest)), blob(ourManifest): ourManifest, blob(ours): theirs,
		}, image.ErrDigest, digest(ours).Hex},
		{"digest missing", map[string][]byte{"index.json": index(v1.Descriptor{MediaType: types.OCIManifestSchema1})}, nil, "digest"},
		{"layer elsewhere", map[string][]byte{
			"index.json": index(of(types.OCIManifestSchema1, foreign)), blob(foreign): foreign, blob(ours): ours,
		}, nil, "stored elsewhere"},
		{"layers without end", map[string][]byte{
			"index.json": index(of(types.OCIManifestSchema1, many)), blob(many): many, blob(ours): ours,
		}, image.ErrHostile, "1001 layers"},
	} {
		t.Run(test.name, func(t *testing.T) {
			ref := writeDir(t, test.files)
			_, err := image.NewLibrary(t.TempDir()).Resolve(t.Context(), ref)
			if err == nil || test.want != nil && !errors.Is(err, test.want) || !strings.Contains(err.Error(), test.says) ||
				!strings.Contains(err.Error(), ref) {
				t.Errorf("error %v, want one that wraps %v and names %q and %s", err, test.want, test.says, ref)
			}
		})
	}
}

func TestResolveRefusesArchives(t *testing.T) {
	other := config()
	other.Architecture = "s390x"
	for _, test := range []struct {
		name  string
		files map[string][]byte
		want  error
		says  string
	}{
		{"empty", nil, nil, "neither manifest.json nor index.json"},
		{"broken", map[string][]byte{"manifest.json": []byte("[")}, nil, "manifest.json"},
		{"no image", map[string][]byte{"manifest.json": []byte("[]")}, nil, "0 images"},
		{"two images", map[string][]byte{"manifest.json": []byte("[{},{}]")}, nil, "2 images"},
		{"no configuration", map[string][]byte{"manifest.json": []byte(`[{"Config":"c"}]`)}, fs.ErrNotExist, "c"},
		{"broken configuration", map[string][]byte{"manifest.json": []byte(`[{"Config":"c"}]`), "c": []byte("{")}, nil, "configuration"},
		{"other platform", map[string][]byte{"manifest.json": []byte(`[{"Config":"c"}]`), "c": marshal(t, other)}, image.ErrPlatform, "s390x"},
		{"layer too many", map[string][]byte{
			"manifest.json": []byte(`[{"Config":"c","Layers":["c"]}]`), "c": marshal(t, config()),
		}, nil, "0 layers, but the image has 1"},
		{"layer missing", map[string][]byte{"manifest.json": []byte(`[{"Config":"c","Layers":["l"]}]`), "c": marshal(t, config(nil))}, fs.ErrNotExist, "l"},
	} {
		t.Run(test.name, func(t *testing.T) {
			ref := writeTar(t, test.files)
			_, err := image.NewLibrary(t.TempDir()).Resolve(t.Context(), ref)
			if err == nil || test.want != nil && !errors.Is(err, test.want) || !strings.Contains(err.Error(), test.says) ||
				!strings.Contains(err.Error(), ref) {
				t.Errorf("error %v, want one that wraps %v and names %q and %s", err, test.want, test.says, ref)
			}
		})
	}
}

// What is not a regular file could have no end, or block for ever.
func TestResolveRefusesStrangeFiles(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	layout := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(layout, "index.json"), 0o600); err != nil {
		t.Fatal(err)
	}
	outside := t.TempDir()
	if err := os.Symlink("/etc/hostname", filepath.Join(outside, "index.json")); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ ref, says string }{
		{"tar:" + fifo, "not a regular file"},
		{"tar:/dev/zero", "not a regular file"},
		{"tar:" + layout, "not a regular file"},
		{"tar:" + fifo + "-no", "no such file"},
		{"oci:" + layout, "not a regular file"},
		{"oci:" + outside, "escapes"},
		{"oci:" + fifo, "not a directory"},
	} {
		if _, err := image.NewLibrary(t.TempDir()).Resolve(t.Context(), test.ref); err == nil ||
			!strings.Contains(err.Error(), test.says) {
			t.Errorf("Resolve(%q): error %v, want one that says %q", test.ref, err, test.says)
		}
	}
}

func TestResolveCanceled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := image.NewLibrary(t.TempDir()).Resolve(ctx, saved(t)); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want context.Canceled", err)
	}
}

// A reference means the same image for as long as the library lives.
func TestResolveIsStable(t *testing.T) {
	lib := image.NewLibrary(t.TempDir())
	ref := saved(t)
	first := resolve(t, lib, ref)
	if err := os.Remove(strings.TrimPrefix(ref, "tar:")); err != nil {
		t.Fatal(err)
	}
	if resolve(t, lib, ref) != first {
		t.Error("another image, want the first one")
	}
}

func FuzzResolve(f *testing.F) {
	f.Add(imagetest.Archive(f, file("manifest.json", `[{"Config":"c","Layers":["l"]}]`),
		file("c", string(marshal(f, config(nil)))), hardlink("l", "l")))
	f.Add(
		imagetest.Archive(f,
			file("index.json",
				`{"schemaVersion":2,"manifests":[{"mediaType":"application/vnd.oci.image.manifest.v1+json","digest":"sha256:00"}]}`)),
	)
	f.Add(gzipped(f, imagetest.Archive(f, file("manifest.json", `[{"Config":"c","Layers":["l"]}]`))))
	f.Fuzz(func(t *testing.T, archive []byte) {
		name := filepath.Join(t.TempDir(), "a.tar")
		if err := os.WriteFile(name, archive, 0o600); err != nil {
			t.Fatal(err)
		}
		lib := image.NewLibrary(t.TempDir(), image.WithLimits(image.Limits{Bytes: 1 << 20}))
		img, err := lib.Resolve(t.Context(), "tar:"+name)
		if err != nil {
			return
		}
		if err := img.WriteDockerArchive(io.Discard, "a:b"); err != nil {
			t.Logf("archive: %v", err)
		}
	})
}
