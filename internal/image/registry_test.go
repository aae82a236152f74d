package image_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	imagename "github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/tare-bench/tare/internal/image"
	"github.com/tare-bench/tare/internal/image/imagetest"
)

// withoutCredentials keeps the credentials of whoever runs the tests out of them.
func withoutCredentials(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"HOME", "DOCKER_CONFIG", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME"} {
		t.Setenv(name, dir)
	}
	t.Setenv("REGISTRY_AUTH_FILE", "")
}

// An image in a registry is the same as in a directory, and stays what it was
// when its tag moves.
func TestRegistry(t *testing.T) {
	withoutCredentials(t)
	layout := imagetest.Layered(t, []byte("program"))
	ref := imagetest.Registry(t, layout)
	dir := t.TempDir()
	lib := image.NewLibrary(dir)
	img, want := resolve(t, lib, ref), resolve(t, lib, layout)
	if img.Digest() != want.Digest() || img.Ref() != ref || want.Pinned() != "" {
		t.Errorf("digest %s of %s, want %s; pinned %q", img.Digest(), img.Ref(), want.Digest(), want.Pinned())
	}
	root, err := img.Rootfs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"etc/", "etc/kept: second", "tare-agent: program"}, tree(t, root)); diff != "" {
		t.Errorf("files differ (-want +got):\n%s", diff)
	}
	again := resolve(t, image.NewLibrary(t.TempDir()), img.Pinned())
	if again.Digest() != img.Digest() || again.Pinned() != img.Pinned() ||
		!strings.Contains(img.Pinned(), "/some/image@sha256:") {
		t.Errorf("%s is %s, want %s", img.Pinned(), again.Digest(), img.Digest())
	}
	// Layers of another reference to it are there already.
	before := names(t, filepath.Join(dir, "registry", "blobs", "sha256"))
	resolve(t, lib, img.Pinned())
	if diff := cmp.Diff(before, names(t, filepath.Join(dir, "registry", "blobs", "sha256"))); diff != "" ||
		len(before) != 3 {
		t.Errorf("%d layers, and (-before +after):\n%s", len(before), diff)
	}
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, f := range files {
		all = append(all, f.Name())
	}
	return all
}

// A fake is a registry with one image, "r:1", that does something else with some
// requests: handle reports whether it has answered.
type fake struct {
	next   http.Handler
	handle func(w http.ResponseWriter, r *http.Request) bool
	asked  atomic.Int64 // requests of what handle is about
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if f.handle == nil || !f.handle(w, r) {
		f.next.ServeHTTP(w, r)
	}
}

// serve starts a registry with an image of one layer.
func serve(t *testing.T, start func(http.Handler) *httptest.Server) (*fake, *httptest.Server) {
	t.Helper()
	withoutCredentials(t)
	f := &fake{next: registry.New(registry.Logger(log.New(io.Discard, "", 0)))}
	plain := httptest.NewServer(f)
	defer plain.Close()
	if err := remote.Write(tag(t, plain),
		build(t, imagetest.Archive(t, file("a", strings.Repeat("x", 100_000))))); err != nil {
		t.Fatal(err)
	}
	s := start(f)
	t.Cleanup(s.Close)
	return f, s
}

// tag is the image that the registry has.
func tag(t *testing.T, s *httptest.Server) imagename.Reference {
	t.Helper()
	ref, err := imagename.ParseReference(host(s) + "/r:1")
	if err != nil {
		t.Fatal(err)
	}
	return ref
}

func host(s *httptest.Server) string {
	_, h, _ := strings.Cut(s.URL, "://")
	return h
}

// shortRetries is a library that gives up soon.
func shortRetries(t *testing.T) *image.Library {
	t.Helper()
	return image.NewLibrary(t.TempDir(), image.WithPatience(200*time.Millisecond, time.Millisecond),
		image.WithLimits(image.Limits{Bytes: 1 << 20}))
}

func of(kind string, do func(w http.ResponseWriter, r *http.Request)) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if strings.Contains(r.URL.Path, "/"+kind+"/") {
			do(w, r)
			return true
		}
		return false
	}
}

func reply(status int, kind, body string) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

func hang(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// cut promises more than it sends.
func cut(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Length", "1000")
	_, _ = io.WriteString(w, "short")
}

// reset breaks the connection.
func reset(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

// sendSlowly sends a byte now and then, for ever.
func sendSlowly(w http.ResponseWriter, r *http.Request) {
	for r.Context().Err() == nil {
		_, _ = w.Write([]byte{' '})
		w.(http.Flusher).Flush()
		time.Sleep(20 * time.Millisecond)
	}
}

// sendAtMinRate sends just enough to be waited for, for ever.
func sendAtMinRate(w http.ResponseWriter, r *http.Request) {
	for r.Context().Err() == nil {
		_, _ = w.Write(make([]byte, 4<<10))
		w.(http.Flusher).Flush()
		time.Sleep(50 * time.Millisecond)
	}
}

const manifestKind = "application/vnd.oci.image.manifest.v1+json"

// Whatever a registry does, it is an error that says what, and it ends.
func TestRegistryRefuses(t *testing.T) {
	zero := "sha256:" + strings.Repeat("0", 64)
	for _, test := range []struct {
		name   string
		handle func(w http.ResponseWriter, r *http.Request) bool
		ref    string // after the host; empty = /r:1
		want   error  // what the error wraps, or nil
		says   string
	}{
		{"no such tag", nil, "/r:2", nil, "the image does not exist"},
		{"no such repository", nil, "/s", nil, "the image does not exist"},
		{"no such digest", nil, "/r@" + zero, nil, "the image does not exist"},
		{"no reference", nil, "/UPPER CASE", nil, "use docker://"},
		{"unauthorized", of("manifests", reply(401, "text/plain", "no")), "", nil, "log in with `docker login 127.0.0.1:"},
		{"forbidden", of("manifests", reply(403, "application/json", `{"errors":[{"code":"DENIED","message":"not\u001b[31m you"}]}`)), "", nil, `"not\x1b[31m you"`},
		{"too many", of("manifests", reply(429, "text/plain", "")), "", nil, "limits the number of requests"},
		{"in trouble", of("manifests", reply(503, "text/plain", "")), "", nil, "try again later"},
		{"a page", of("manifests", reply(200, "text/html", "<html>")), "", nil, "answer is not a manifest"},
		{"other JSON", of("manifests", reply(200, "application/json", "{}")), "", nil, "answer is not an image's manifest"},
		{"schema 1", of("manifests", reply(200, "application/vnd.docker.distribution.manifest.v1+prettyjws", "{}")), "", nil, "schema 1"},
		{
			"an artifact",
			of("manifests",
				reply(200, manifestKind,
					`{"schemaVersion":2,"config":{"mediaType":"application/vnd.cncf.helm.config.v1+json","digest":"`+zero+
						`","size":2}}`)), "", nil, "not an image that can run",
		},
		{"endless manifest", of("manifests", reply(200, manifestKind, strings.Repeat(" ", 5<<20))), "", image.ErrHostile, "longer than"},
		{"another digest", of("manifests", reply(200, manifestKind, "{}")), "/r@" + zero, image.ErrDigest, zero},
		{"huge layers", huge(t), "", image.ErrHostile, "layers of more than"},
		{"another architecture", of("manifests", reply(200, "application/vnd.oci.image.index.v1+json",
			`{"schemaVersion":2,"manifests":[{"mediaType":"`+manifestKind+`","digest":"`+zero+
				`","platform":{"os":"linux","architecture":"s390x"}}]}`)), "", image.ErrPlatform, "linux/s390x"},
		{"another layer", of("blobs", reply(200, "", "something else")), "", image.ErrDigest, ""},
		{"cut short", of("blobs", cut), "", nil, ""},
		{"reset", of("manifests", reset), "", nil, "EOF"},
		{"hangs", of("manifests", hang), "", nil, "stopped answering"},
		{"hangs at once", func(w http.ResponseWriter, r *http.Request) bool { hang(w, r); return true }, "", nil, "stopped answering"},
		{"drips", of("manifests", sendSlowly), "", nil, "stopped answering"},
		{"crawls", of("manifests", sendAtMinRate), "", nil, "too slow"},
		{"redirects to another service of this machine", of("manifests", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://127.0.0.1:1/x", http.StatusFound)
		}), "", image.ErrHostile, "127.0.0.1:1, another service"},
		{"redirects for ever", of("manifests", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, r.URL.Path, http.StatusFound)
		}), "", nil, "redirections"},
		{"redirects to plain HTTP", of("manifests", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://registry.example/x", http.StatusFound)
		}), "", nil, "plain HTTP"},
	} {
		t.Run(test.name, func(t *testing.T) {
			f, s := serve(t, httptest.NewServer)
			f.handle = test.handle
			ref := "docker://" + host(s) + test.ref
			if test.ref == "" {
				ref += "/r:1"
			}
			_, err := shortRetries(t).Resolve(t.Context(), ref)
			if err == nil || test.want != nil && !errors.Is(err, test.want) || !strings.Contains(err.Error(), test.says) ||
				!strings.Contains(err.Error(), ref) || errors.Is(err, image.ErrForeign) {
				t.Errorf("error %v, want one that wraps %v and says %q", err, test.want, test.says)
			}
			if err != nil && len(err.Error()) > 1500 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
		})
	}
}

// huge is an image of layers that nobody has room for.
func huge(t *testing.T) func(http.ResponseWriter, *http.Request) bool {
	c := marshal(t, config([]byte("x")))
	m := marshal(t, v1.Manifest{
		SchemaVersion: 2, Config: v1.Descriptor{Digest: digest(c), Size: int64(len(c))},
		Layers: []v1.Descriptor{{Digest: digest([]byte("x")), Size: 1 << 62}},
	})
	return func(w http.ResponseWriter, r *http.Request) bool {
		return of("manifests", reply(200, manifestKind, string(m)))(w, r) || of("blobs", reply(200, "", string(c)))(w, r)
	}
}

// What may be gone next time is tried again, and what cannot be is not.
func TestRegistryTriesAgain(t *testing.T) {
	for _, test := range []struct {
		name  string
		kind  string
		once  func(http.ResponseWriter, *http.Request)
		asked int64 // in all, if it is done every time; the HTTP client repeats what a kept connection has lost
	}{
		{"reset", "manifests", reset, 3},
		{"trouble", "manifests", reply(503, "", ""), 3},
		{"cut short", "blobs", cutAsPromised, 3},
		{"hang", "blobs", hang, 3},
		{"not found", "manifests", reply(404, "", ""), 1},
		{"another content", "manifests", reply(200, manifestKind, "{}"), 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			f, s := serve(t, httptest.NewServer)
			most := int64(1)
			f.handle = func(w http.ResponseWriter, r *http.Request) bool {
				if !strings.Contains(r.URL.Path, "/"+test.kind+"/") || f.asked.Add(1) > most {
					return false
				}
				test.once(w, r)
				return true
			}
			_, err := shortRetries(t).Resolve(t.Context(), "docker://"+host(s)+"/r:1")
			if (err == nil) != (test.asked > 1) {
				t.Errorf("once: %v", err)
			}
			f.asked.Store(0)
			most = 1000
			dir := t.TempDir()
			lib := image.NewLibrary(dir, image.WithPatience(200*time.Millisecond, time.Millisecond))
			if _, err := lib.Resolve(t.Context(), "docker://"+host(s)+"/r:1"); err == nil || f.asked.Load() < test.asked ||
				f.asked.Load() > 2*test.asked || test.asked == 1 && f.asked.Load() > 1 {
				t.Errorf("every time: asked %d times, %v; want %d", f.asked.Load(), err, test.asked)
			}
			left, err := filepath.Glob(filepath.Join(dir, "registry", "blobs", "sha256", ".*"))
			if len(left) > 0 || err != nil {
				t.Errorf("left %v, %v", left, err)
			}
		})
	}
}

// cutAsPromised breaks off in the middle, without a length that could tell.
func cutAsPromised(w http.ResponseWriter, _ *http.Request) {
	_, _ = io.WriteString(w, "short")
	w.(http.Flusher).Flush()
	panic(http.ErrAbortHandler)
}

func TestRegistryCertificate(t *testing.T) {
	_, s := serve(t, func(h http.Handler) *httptest.Server {
		s := httptest.NewUnstartedServer(h)
		s.Config.ErrorLog = log.New(io.Discard, "", 0)
		s.StartTLS()
		return s
	})
	_, err := image.NewLibrary(t.TempDir()).Resolve(t.Context(), "docker://"+host(s)+"/r:1")
	if err == nil || !strings.Contains(err.Error(), "does not trust the registry's certificate") {
		t.Errorf("error %v, want one about the certificate", err)
	}
}

func TestRegistryCanceled(t *testing.T) {
	f, s := serve(t, httptest.NewServer)
	ctx, cancel := context.WithCancel(t.Context())
	f.handle = of("blobs", func(w http.ResponseWriter, r *http.Request) {
		cancel()
		hang(w, r)
	})
	if _, err := image.NewLibrary(t.TempDir()).Resolve(ctx,
		"docker://"+host(s)+"/r:1"); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want context.Canceled", err)
	}
	// The failure is not kept, and what was fetched neither.
	f.handle = nil
	resolve(t, image.NewLibrary(t.TempDir()), "docker://"+host(s)+"/r:1")
}

// Credentials are those of Docker's configuration, by password or for a token.
func TestRegistryCredentials(t *testing.T) {
	for _, scheme := range []string{"Basic", "Bearer"} {
		t.Run(scheme, func(t *testing.T) {
			f, s := serve(t, httptest.NewServer)
			f.handle = requireAuth(s, scheme)
			ref := "docker://" + host(s) + "/r:1"
			if _, err := shortRetries(t).Resolve(t.Context(), ref); err == nil ||
				!strings.Contains(err.Error(), "docker login "+host(s)) {
				t.Errorf("without credentials: %v, want an error that says how to log in", err)
			}
			write(t, fmt.Sprintf(`{"auths":{%q:{"auth":"bWU6c2VjcmV0"}}}`, host(s))) // me:secret
			resolve(t, shortRetries(t), ref)
			write(t, fmt.Sprintf(`{"credHelpers":{%q:"no-such-helper"}}`, host(s)))
			if _, err := shortRetries(t).Resolve(t.Context(), ref); err == nil ||
				!strings.Contains(err.Error(), "config.json") || !strings.Contains(err.Error(), "no-such-helper") {
				t.Errorf("without its helper: %v, want an error that names it", err)
			}
		})
	}
}

// write writes Docker's configuration.
func write(t *testing.T, config string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(os.Getenv("DOCKER_CONFIG"), "config.json"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
}

// requireAuth lets nobody in but me.
func requireAuth(s *httptest.Server, scheme string) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		user, password, _ := r.BasicAuth()
		known := user == "me" && password == "secret"
		switch {
		case r.URL.Path == "/token" && known:
			reply(200, "application/json", `{"token":"let-me-in"}`)(w, r)
			return true
		case scheme == "Basic" && known, scheme == "Bearer" && r.Header.Get("Authorization") == "Bearer let-me-in":
			return false
		}
		w.Header().Set("WWW-Authenticate", fmt.Sprintf(`%s realm="%s/token",service="test"`, scheme, s.URL))
		reply(401, "text/plain", "who are you?")(w, r)
		return true
	}
}

// Of images for several CPUs of one architecture, the plain one is taken.
func TestRegistryVariants(t *testing.T) {
	withoutCredentials(t)
	s := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(s.Close)
	plain, newer := build(t, imagetest.Archive(t, file("plain", ""))), build(t, imagetest.Archive(t, file("newer", "")))
	arch, variant := platform(), "v9"
	index := mutate.AppendManifests(empty.Index,
		mutate.IndexAddendum{
			Add: newer, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch, Variant: variant}},
		},
		mutate.IndexAddendum{Add: plain, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}}})
	if err := remote.WriteIndex(tag(t, s), index); err != nil {
		t.Fatal(err)
	}
	want, err := plain.ConfigName()
	if err != nil {
		t.Fatal(err)
	}
	if got := resolve(t, image.NewLibrary(t.TempDir()), "docker://"+host(s)+"/r:1"); got.Digest() != want.String() {
		t.Errorf("digest %s, want that of the plain image, %s", got.Digest(), want)
	}
}

func platform() string { return config().Architecture }

// Layers in zstd are unpacked for engines that cannot read them.
func TestArchiveOfZstd(t *testing.T) {
	img := resolve(t, image.NewLibrary(t.TempDir()), imagetest.Layered(t, []byte("program")))
	var b bytes.Buffer
	if err := img.WriteDockerArchive(&b, ""); err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(b.Bytes(), []byte("\x28\xb5\x2f\xfd")) || !bytes.Contains(b.Bytes(), []byte(".wh.gone")) {
		t.Error("the archive holds zstd, or not the white-out that was in it")
	}
}
