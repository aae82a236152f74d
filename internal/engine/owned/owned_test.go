package owned_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/owned"
	"github.com/tare-bench/tare/internal/image"
)

func TestRunOf(t *testing.T) {
	r := owned.Run{ID: "run-1", Engine: "docker"}
	for name, want := range map[string]string{
		r.ImageName("agent"):                     "run-1",
		"tare.local/run-1/docker/0123:latest":    "run-1",
		"127.0.0.1:5000/tare-run-1/docker:1":     "run-1",
		"tare.local:latest":                      "",
		"tare.local/run-1":                       "",
		"docker.io/tare.local/run-1/agent:1":     "",
		"registry.example/tare-run-1/docker:1":   "",
		"debian:12":                              "",
		"":                                       "",
		"127.0.0.1:5000/another-run-1/docker:1a": "",
	} {
		if got := owned.RunOf(name); got != want {
			t.Errorf("%q is of run %q, want %q", name, got, want)
		}
	}
	if a, b := r.Prefix(), r.Prefix(); a == b || !strings.HasPrefix(a, "run-1-docker-") {
		t.Errorf("prefixes %q and %q, want two that begin with the run's ID and the engine's name", a, b)
	}
}

func TestLeftovers(t *testing.T) {
	l := &owned.Leftovers{Engine: "docker", IsDead: func(run string) bool { return run != "alive" }}
	for _, run := range []string{"dead", "alive", "../x", ""} {
		l.Add(run, "container", "of "+run)
	}
	want := []bench.Leftover{{Run: "dead", Engine: "docker", Kind: "container", ID: "of dead"}}
	if diff := cmp.Diff(want, l.Found); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// What cannot be found is looked for again, and what was found is not.
func TestImages(t *testing.T) {
	var images owned.Images[string, int]
	calls, failure := 0, errors.New("no")
	find := func() (int, error) {
		if calls++; calls == 1 {
			return 0, failure
		}
		return calls, nil
	}
	if _, err := images.Get("a", find); !errors.Is(err, failure) {
		t.Errorf("the first time: %v", err)
	}
	for range 2 {
		if got, err := images.Get("a", find); err != nil || got != 2 {
			t.Errorf("found %d, %v, want what the second call found", got, err)
		}
	}
	images.Forget("a")
	if got, err := images.Get("a", find); err != nil || got != 3 {
		t.Errorf("forgotten: %d, %v", got, err)
	}
}

// An image whose pull has failed is evicted, although the context has ended, and none that
// was evicted is removed at the end.
func TestPull(t *testing.T) {
	var images owned.Images[string, int]
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var removed []string
	remove := func(name string) error {
		removed = append(removed, name)
		return nil
	}
	evict := func(name string) func(context.Context) error {
		return func(ctx context.Context) error {
			return errors.Join(ctx.Err(), images.Evict(name, name, func() error { return remove("evicted " + name) }))
		}
	}
	if err := images.Pull(ctx, "bad", ctx.Err, evict("bad")); !errors.Is(err, context.Canceled) {
		t.Errorf("a pull that is cut short: %v", err)
	}
	err := images.Pull(ctx, "good", func() error { return nil }, evict("good"))
	if err != nil || !images.Sent("good") || images.Sent("bad") {
		t.Errorf("a pull: %v", err)
	}
	if err := images.Close(remove); err != nil || !slices.Equal(removed, []string{"evicted bad", "good"}) {
		t.Errorf("removed %q, %v", removed, err)
	}
	if err := images.Close(remove); err != nil || len(removed) != 2 {
		t.Errorf("closed twice: %q, %v", removed, err)
	}
}

var errGone = errors.New("no such image")

// A fake is a Store whose images are told by all their names.
type fake struct {
	images map[string]owned.Stored
	calls  []string
	makes  owned.Stored // of what it receives, under every name
	goes   bool         // another program removes an image while it gets a name
}

func (f *fake) Image(_ context.Context, ref string) (owned.Stored, error) {
	if i, ok := f.images[ref]; ok {
		return i, nil
	}
	if f.makes.ID != "" && slices.Contains(f.calls, "receive") && strings.Contains(ref, "/") {
		return f.makes, nil
	}
	return owned.Stored{}, errGone
}

func (*fake) Gone(err error) bool { return errors.Is(err, errGone) }

func (f *fake) Tag(_ context.Context, id, name string) error {
	f.calls = append(f.calls, "tag "+id)
	f.images[name] = f.images[id]
	if f.goes {
		clear(f.images)
	}
	return nil
}

func (f *fake) Receive(_ context.Context, archive io.Reader) error {
	f.calls = append(f.calls, "receive")
	_, err := io.Copy(io.Discard, archive)
	return err
}

func TestLoad(t *testing.T) {
	library := image.NewLibrary(t.TempDir(), image.WithAgent([]byte("not a program")))
	img, err := library.Resolve(t.Context(), image.Agent)
	if err != nil {
		t.Fatal(err)
	}
	run, digest := owned.Run{ID: "run-1", Engine: "docker"}, img.Digest()
	ours, other := run.ImageName("agent"), "sha256:0e"
	whole, theirs := owned.Stored{ID: digest, Digest: digest}, owned.Stored{ID: other, Digest: other}
	loaded := func(name, id string) owned.Loaded { return owned.Loaded{Name: name, ID: id, Digest: digest} }
	for name, test := range map[string]struct {
		has   []string // names of the image, where the store has it
		there bool
		goes  bool
		makes owned.Stored
		want  owned.Loaded
		calls []string
		err   string
	}{
		"from nothing":    {makes: whole, want: loaded(ours, digest), calls: []string{"receive"}},
		"by its manifest": {makes: owned.Stored{ID: other}, want: loaded(ours, other), calls: []string{"receive"}},
		"became another":  {makes: theirs, calls: []string{"receive"}, err: "stored it as " + other + ", not as " + digest},
		"somebody's":      {has: []string{"debian:12"}, there: true, want: loaded(ours, digest), calls: []string{"tag " + digest}},
		"just removed": {
			has: []string{"tare/another"}, there: true, goes: true, makes: whole, want: loaded(ours, digest),
			calls: []string{"tag " + digest, "receive"},
		},
		"nobody's":         {there: true, want: loaded(ours, digest), calls: []string{"tag " + digest}},
		"lost in the load": {calls: []string{"receive"}, err: "docker: inspect image " + ours + ": no such image"},
	} {
		t.Run(name, func(t *testing.T) {
			store := &fake{images: map[string]owned.Stored{}, makes: test.makes, goes: test.goes}
			if test.there {
				store.images[digest] = owned.Stored{ID: digest, Digest: digest, Names: test.has}
			}
			l := owned.Loader{Run: run, Library: library, Fetch: "docker pull"}
			for range 2 { // the second time nobody is asked, unless the first has failed
				store.calls = nil
				if test.err != "" {
					l = owned.Loader{Run: run, Library: library}
				}
				got, err := l.Load(t.Context(), store, image.Agent)
				if got != test.want || (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
					t.Errorf("%+v, %v", got, err)
				}
				if !slices.Equal(store.calls, test.calls) {
					t.Errorf("calls %q, want %q", store.calls, test.calls)
				}
				if test.err == "" {
					test.calls = nil
				}
			}
			if !l.Sent(ours) {
				t.Errorf("that the store may have %s is not noted", ours)
			}
		})
	}
}

// A user's image without a name stays without one, so that it is not removed at the end. If it is another run's, which
// removes it meanwhile, it is loaded.
func TestCheckLoadsWhatHasGone(t *testing.T) {
	const ref = "host:/bin/true"
	library := image.NewLibrary(t.TempDir())
	img, err := library.Resolve(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	digest := img.Digest()
	store := &fake{images: map[string]owned.Stored{digest: {ID: digest, Digest: digest}}}
	l := owned.Loader{Run: owned.Run{ID: "run-1", Engine: "docker"}, Library: library}
	if got, err := l.Load(t.Context(), store, ref); err != nil || len(store.calls) > 0 || got.Name != digest {
		t.Fatalf("%+v, calls %q, %v", got, store.calls, err)
	}
	delete(store.images, digest)
	store.makes = owned.Stored{ID: digest, Digest: digest}
	if err := l.Check(t.Context(), store, ref); err != nil || !slices.Equal(store.calls, []string{"receive"}) {
		t.Errorf("calls %q, %v", store.calls, err)
	}
}
