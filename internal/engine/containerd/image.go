package containerd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	containerd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/images/archive"
	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/containerd/v2/pkg/oci"
	"github.com/opencontainers/image-spec/identity"
	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/owned"
	"github.com/tare-bench/tare/internal/image"
)

// An imageKey names an image and the snapshotter that it is unpacked for.
type imageKey struct{ ref, snapshotter string }

// An unpacked is an image that containerd has unpacked, ready for containers.
type unpacked struct {
	key     imageKey
	image   containerd.Image
	digest  string        // of its configuration
	chain   string        // the snapshot under each container's own
	process specs.Process // what its configuration says about a process
}

// snapshotterOf is the snapshotter for spec.
func (e *Engine) snapshotterOf(spec bench.Spec) string {
	if spec.Snapshotter != "" {
		return spec.Snapshotter
	}
	return e.cfg.Snapshotter
}

// imageOf returns the image for spec. It loads and unpacks each pair of reference and snapshotter
// once.
func (e *Engine) imageOf(ctx context.Context, s *server, spec bench.Spec) (*unpacked, error) {
	key := imageKey{spec.Image, e.snapshotterOf(spec)}
	return e.images.Get(key, func() (*unpacked, error) {
		img, err := e.load(ctx, s, key.ref)
		if err != nil {
			return nil, err
		}
		i, err := e.unpack(ctx, s, key, img)
		if err != nil {
			return nil, e.failed("unpack image "+img.Name(), err)
		}
		return i, nil
	})
}

// load brings an image into tare's namespace.
func (e *Engine) load(ctx context.Context, s *server, ref string) (containerd.Image, error) {
	if e.images.Sent(ref) {
		return e.pulled(ctx, s, ref)
	}
	img, err := e.cfg.Images.Resolve(ctx, ref)
	if errors.Is(err, image.ErrForeign) {
		return e.importUserImage(ctx, s, ref)
	}
	if err != nil {
		return nil, err
	}
	name := e.nameOf(img.Digest())
	got, err := e.receive(ctx, s, name, func(w io.Writer) error { return img.WriteDockerArchive(w, name) })
	if err != nil {
		return nil, e.failed("import image "+img.Ref(), err)
	}
	return got, e.failed("import image "+img.Ref(), checkDigest(ctx, got, img.Digest()))
}

// checkDigest checks what containerd has stored.
func checkDigest(ctx context.Context, got containerd.Image, digest string) error {
	config, err := got.Config(ctx)
	if err == nil && config.Digest.String() != digest {
		err = fmt.Errorf("containerd stored it as %s, not as %s", config.Digest, digest)
	}
	return err
}

// importUserImage copies an image from the namespace of the user's own tools. Containerd stores the content
// only once.
func (e *Engine) importUserImage(ctx context.Context, s *server, ref string) (containerd.Image, error) {
	found, err := e.userImage(ctx, s, ref)
	if err != nil {
		return nil, err
	}
	name := e.nameOf(found.Target.Digest.String())
	got, err := e.receive(ctx, s, name, func(w io.Writer) error { return export(ctx, s, found, name, w) })
	if err != nil {
		return nil, e.failed("copy image "+ref+" from namespace "+userNamespace(), err)
	}
	return got, nil
}

// userNamespace is the namespace of the user's own tools.
func userNamespace() string { return cmp.Or(os.Getenv("CONTAINERD_NAMESPACE"), namespaces.Default) }

// userImage finds an image in the user's namespace.
func (e *Engine) userImage(ctx context.Context, s *server, ref string) (images.Image, error) {
	space := userNamespace()
	found, err := s.client.ImageService().Get(namespaces.WithNamespace(ctx, space), ref)
	if isNotFound(err) {
		return found, fmt.Errorf("%s %w %q in namespace %s: use a name that `ctr --namespace %s images ls` shows, or "+
			"%s: %w",
			e.cfg.Name, bench.ErrNoImage, ref, space, space, image.NamedElsewhere(ref), err)
	}
	if err != nil {
		return found, e.failed("find image "+ref, bench.Because(ctx, err))
	}
	return found, nil
}

// export writes an image of the user's namespace to w, as an archive with the given name.
func export(ctx context.Context, s *server, found images.Image, name string, w io.Writer) error {
	there := namespaces.WithNamespace(ctx, userNamespace())
	platform := containerd.NewImage(s.client, found).Platform()
	return s.client.Export(there, w, archive.WithPlatform(platform), archive.WithManifest(found.Target, name))
}

// FindImage implements bench.ImageFinder.
func (e *Engine) FindImage(ctx context.Context, name string) error {
	s, err := e.server(ctx)
	if err == nil {
		_, err = e.userImage(ctx, s, name)
	}
	return err
}

// SaveImage implements bench.ImageSaver.
func (e *Engine) SaveImage(ctx context.Context, name string, w io.Writer) error {
	s, err := e.server(ctx)
	if err != nil {
		return err
	}
	found, err := e.userImage(ctx, s, name)
	if err != nil {
		return err
	}
	if err := export(ctx, s, found, name, w); err != nil {
		return e.failed("export image "+name, bench.Because(ctx, err))
	}
	return nil
}

// LoadImage implements bench.ImageLoader. It loads the image into the namespace that adopt copies
// from.
func (e *Engine) LoadImage(ctx context.Context, archive io.Reader, name, digest string) error {
	s, done, err := e.connectTemporarily(ctx)
	if err != nil {
		return err
	}
	defer done()
	ctx = namespaces.WithNamespace(ctx, userNamespace())
	if _, err := s.client.Import(ctx, archive); err != nil {
		return e.failed("import image "+name, bench.Because(ctx, err))
	}
	got, err := s.client.GetImage(ctx, name)
	if err != nil {
		return e.failed("find image "+name, err)
	}
	return e.failed("import image "+name, checkDigest(ctx, got, digest))
}

// nameOf is the name in tare's namespace for the image with a digest.
func (e *Engine) nameOf(digest string) string {
	_, hex, _ := strings.Cut(digest, ":")
	return e.run.ImageName(hex[:min(12, len(hex))])
}

// receive imports the archive that write writes, without storing it anywhere. It does so once more if the lease that
// containerd imports under is gone: a run that ends deletes the namespace while it is empty, with all leases.
func (e *Engine) receive(
	ctx context.Context, s *server, name string, write func(io.Writer) error,
) (containerd.Image, error) {
	e.images.Send(name)
	got, err := e.receiveOnce(ctx, s, write)
	if isNotFound(err) {
		got, err = e.receiveOnce(ctx, s, write)
	}
	if err != nil {
		return nil, bench.Because(ctx, err)
	}
	for _, i := range got {
		if i.Name == name {
			return containerd.NewImage(s.client, i), nil
		}
	}
	return nil, fmt.Errorf("containerd imported it without the name %s", name)
}

func (e *Engine) receiveOnce(ctx context.Context, s *server, write func(io.Writer) error) ([]images.Image, error) {
	r, w := io.Pipe()
	go func() { w.CloseWithError(write(w)) }()
	defer func() { _ = r.Close() }() // ends the writer
	return s.client.Import(ctx, r, containerd.WithImageLabels(e.labels()))
}

// labels are on every object of this engine.
func (e *Engine) labels() map[string]string { return map[string]string{owned.Label: e.cfg.Run} }

// unpack makes the snapshot that containers of the image build on, and reads what the image's
// configuration says about processes.
func (e *Engine) unpack(ctx context.Context, s *server, key imageKey, img containerd.Image) (*unpacked, error) {
	if err := img.Unpack(ctx, key.snapshotter); err != nil {
		return nil, bench.Because(ctx, err)
	}
	config, err := img.Config(ctx)
	if err != nil {
		return nil, err
	}
	layers, err := img.RootFS(ctx)
	if err != nil {
		return nil, err
	}
	i := &unpacked{key: key, image: img, digest: config.Digest.String(), chain: identity.ChainID(layers).String()}
	return i, e.readProcess(ctx, s, i)
}

// readProcess applies the image's configuration to a process. If the user is a name, it is looked
// up in the image's files, and so are the user's groups.
func (e *Engine) readProcess(ctx context.Context, s *server, i *unpacked) error {
	ctx, done, err := s.client.WithLease(namespaces.WithNamespace(ctx, namespace)) // keeps the view
	if err != nil {
		return err
	}
	defer func() { _ = done(ctx) }() // the lease expires anyway
	store, view := s.client.SnapshotService(i.key.snapshotter), e.next()
	if _, err := store.View(ctx, view, i.chain, snapshots.WithLabels(e.labels())); err != nil {
		return err
	}
	spec := &oci.Spec{Linux: &specs.Linux{}}
	about := &containers.Container{ID: view, Snapshotter: i.key.snapshotter, SnapshotKey: view}
	err = oci.WithImageConfig(i.image)(ctx, s.client, about, spec)
	if err == nil {
		i.process = *spec.Process
	}
	return errors.Join(err, store.Remove(context.WithoutCancel(ctx), view))
}

// removeImage removes an image, and waits until containerd has deleted the content that is no
// longer needed.
func (e *Engine) removeImage(ctx context.Context, s *server, name string) error {
	return e.removed("image "+name, s.client.ImageService().Delete(ctx, name, images.SynchronousDelete()))
}

// removed is the error of a removal. It is not an error if the object was gone.
func (e *Engine) removed(object string, err error) error {
	if err == nil || isNotFound(err) {
		return nil
	}
	return e.failed("remove "+object, err)
}
