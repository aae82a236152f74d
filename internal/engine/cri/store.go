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

// This file does not use CRI, which can only fetch images from registries. It uses containerd's own
// API, at the same socket.

// pause makes the pause image, if the server tells its name but does not have it. Then tare's agent
// is the first process of a pod. The usual pause program is smaller and does just as little.
func (e *Engine) pause(ctx context.Context, s *server) error {
	name := e.pauseName(s)
	if name == "" || s.store == nil {
		return nil // the server does what it would do without tare
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
	if shared, err := e.hasForeignPods(ctx, s); err != nil || shared && e.cfg.PauseImage == "" {
		return err // another pod could start with tare's image: let the server fetch its own
	}
	img, err := e.cfg.Images.Resolve(ctx, image.Agent)
	if err != nil {
		return err
	}
	if img, err = img.WithArgv(agent.Path, "hold"); err != nil {
		return err
	}
	if err := e.loadNamed(ctx, s, img, name); err != nil {
		return e.failed(ctx, "load image "+name, err)
	}
	_, err = e.awaitImage(ctx, s, name)
	return err
}

// hasForeignPods reports whether the server has pods that do not belong to a run of tare.
func (e *Engine) hasForeignPods(ctx context.Context, s *server) (bool, error) {
	pods, err := s.ListPodSandbox(ctx, &cri.ListPodSandboxRequest{})
	if err != nil {
		return false, e.failed(ctx, "list pods", err)
	}
	return slices.ContainsFunc(pods.Items, func(p *cri.PodSandbox) bool { return p.Labels[owned.Label] == "" }), nil
}

// pauseName is the server's name for the pause image; empty if it is unknown.
func (e *Engine) pauseName(s *server) string {
	if e.cfg.PauseImage != "" {
		return e.cfg.PauseImage
	}
	if name := s.missingPauseImage.Load(); name != nil {
		return *name
	}
	return s.config.SandboxImage
}

// pauseFetchError matches containerd's error that it cannot fetch the pause image, plain and quoted.
// Containerd 2 tells the image's name nowhere else.
var pauseFetchError = regexp.MustCompile(
	`failed to (?:get sandbox|pull) image \\?"([A-Za-z0-9][A-Za-z0-9._:/@-]{0,254})\\?"`,
)

// pauseImageFrom is the name of the missing pause image in an error; empty if err is about something else.
func pauseImageFrom(err error) string {
	if err == nil {
		return ""
	}
	found := pauseFetchError.FindStringSubmatch(err.Error())
	if found == nil {
		return ""
	}
	return found[1]
}

// loadNamed loads an image and gives it a name that is not tare's, unless an image with that name
// exists by now.
func (e *Engine) loadNamed(ctx context.Context, s *server, img *image.Image, name string) error {
	made, err := e.send(ctx, s, img, e.run.ImageName("pause"))
	if err != nil {
		return err
	}
	made.Name = name
	made.Labels = maps.Clone(made.Labels)
	made.Labels["io.cri-containerd.pinned"] = "pinned" // otherwise, as above
	_, err = s.store.ImageService().Create(inKubernetes(ctx), made)
	if errdefs.IsAlreadyExists(err) {
		return nil
	}
	e.images.Send(name)
	return err
}

// send streams the image to containerd without storing it anywhere.
func (e *Engine) send(ctx context.Context, s *server, img *image.Image, name string) (images.Image, error) {
	e.images.Send(name)
	r, w := io.Pipe()
	go func() { w.CloseWithError(img.WriteDockerArchive(w, name)) }()
	defer func() { _ = r.Close() }() // ends the writer
	labels := map[string]string{
		owned.Label:               e.cfg.Run,
		"io.cri-containerd.image": "managed", // otherwise the server adds a second name that nobody removes
	}
	made, err := s.store.Import(inKubernetes(ctx), r, containerd.WithImageLabels(labels))
	if err != nil {
		return images.Image{}, err
	}
	if len(made) != 1 {
		return images.Image{}, fmt.Errorf("containerd made %d images of it, not one", len(made))
	}
	return made[0], nil
}

// removeImage removes a name that carries the run's label, and the content that no other image
// needs. It is not an error if there is none.
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

// inKubernetes directs a call to containerd's namespace for pods.
func inKubernetes(ctx context.Context) context.Context {
	return namespaces.WithNamespace(ctx, "k8s.io")
}
