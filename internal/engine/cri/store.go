package cri

import (
	"context"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"

	containerd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/errdefs"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/tare-bench/tare/internal/agent"
	"github.com/tare-bench/tare/internal/engine/owned"
	"github.com/tare-bench/tare/internal/image"
)

// What this file does is not of the interface, which can only fetch images from
// registries, but of containerd, which answers at the same socket.

// pause makes the image of a pod's first process, if the server tells its name
// and has none: then tare's agent holds the pod. The kubelet's is a program of
// fewer bytes that does as little.
func (e *Engine) pause(ctx context.Context, s *server) error {
	name := e.pauseName(s)
	if name == "" || s.store == nil {
		return nil // the server will do what it does without tare
	}
	e.pausing.Lock() // pods of a population are prepared side by side
	defer e.pausing.Unlock()
	found, err := s.image(ctx, name)
	if err != nil {
		return e.failed(ctx, "look for image "+name, err)
	}
	if found != nil {
		return nil
	}
	if shared, err := e.shared(ctx, s); err != nil || shared && e.cfg.PauseImage == "" {
		return err // somebody's pod might begin with tare's image meanwhile: the server may fetch its own
	}
	img, err := e.cfg.Images.Resolve(ctx, image.Agent)
	if err != nil {
		return err
	}
	if img, err = img.WithArgv(agent.Path, "hold"); err != nil {
		return err
	}
	if err := e.christen(ctx, s, img, name); err != nil {
		return e.failed(ctx, "load image "+name, err)
	}
	_, err = e.appears(ctx, s, name)
	return err
}

// shared reports whether the server has pods that are no run's of tare.
func (e *Engine) shared(ctx context.Context, s *server) (bool, error) {
	pods, err := s.ListPodSandbox(ctx, &cri.ListPodSandboxRequest{})
	if err != nil {
		return false, e.failed(ctx, "list pods", err)
	}
	return slices.ContainsFunc(pods.Items, func(p *cri.PodSandbox) bool { return p.Labels[owned.Label] == "" }), nil
}

// pauseName is what the server calls that image; empty if nobody tells.
func (e *Engine) pauseName(s *server) string {
	if e.cfg.PauseImage != "" {
		return e.cfg.PauseImage
	}
	if name := s.lacks.Load(); name != nil {
		return *name
	}
	return s.config.SandboxImage
}

// lacking is how containerd says that it cannot fetch the image of a pod's first
// process, as it is and quoted. Containerd 2 tells its name nowhere else.
var lacking = regexp.MustCompile(`failed to (?:get sandbox|pull) image \\?"([A-Za-z0-9][A-Za-z0-9._:/@-]{0,254})\\?"`)

// pauseIn is the image that a pod could not begin without; empty if err is about
// something else.
func pauseIn(err error) string {
	if err == nil {
		return ""
	}
	found := lacking.FindStringSubmatch(err.Error())
	if found == nil {
		return ""
	}
	return found[1]
}

// christen loads an image, and gives it a name that is not tare's, unless
// somebody has an image of that name by now.
func (e *Engine) christen(ctx context.Context, s *server, img *image.Image, name string) error {
	made, err := e.send(ctx, s, img, e.run.ImageName("pause"))
	if err != nil {
		return err
	}
	made.Name = name
	made.Labels = maps.Clone(made.Labels)
	made.Labels["io.cri-containerd.pinned"] = "pinned" // else, as above
	_, err = s.store.ImageService().Create(inKubernetes(ctx), made)
	if errdefs.IsAlreadyExists(err) {
		return nil
	}
	e.images.Send(name)
	return err
}

// send streams the image to containerd without keeping it anywhere.
func (e *Engine) send(ctx context.Context, s *server, img *image.Image, name string) (images.Image, error) {
	e.images.Send(name)
	r, w := io.Pipe()
	go func() { w.CloseWithError(img.WriteDockerArchive(w, name)) }()
	defer func() { _ = r.Close() }() // ends the writer; it was only read
	labels := map[string]string{
		owned.Label:               e.cfg.Run,
		"io.cri-containerd.image": "managed", // else the server gives it a second name, which nobody removes
	}
	made, err := s.store.Import(inKubernetes(ctx), r, containerd.WithImageLabels(labels))
	if err != nil {
		return images.Image{}, err
	}
	if len(made) != 1 {
		return images.Image{}, fmt.Errorf("it became %d images", len(made))
	}
	return made[0], nil
}

// removeImage removes a name that carries the run's label, and with it what
// nobody else needs of its image. It is not an error if there is none.
func (e *Engine) removeImage(ctx context.Context, s *server, run, name string) error {
	store := s.store.ImageService()
	found, err := store.Get(inKubernetes(ctx), name)
	if err == nil && found.Labels[owned.Label] != run {
		return fmt.Errorf("%s: image %s is not of run %s", e.cfg.Name, name, run)
	}
	if err == nil {
		err = store.Delete(inKubernetes(ctx), name)
	}
	if err == nil || errdefs.IsNotFound(err) {
		return nil
	}
	return e.failed(ctx, "remove image "+name, err)
}

// inKubernetes says that a call is about what containerd keeps for pods.
func inKubernetes(ctx context.Context) context.Context {
	return namespaces.WithNamespace(ctx, "k8s.io")
}
