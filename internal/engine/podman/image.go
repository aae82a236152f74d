package podman

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/image"
)

// repository begins the names of all images that tare loads. No registry can
// have that name, so that Podman never asks one for them.
const repository = "tare.local/"

// A loaded image is one that Podman has.
type loaded struct {
	name   string // under which Podman knows it
	digest string // of its configuration, which is its ID
}

// An imageInspection is the part of Podman's word on an image that tare uses.
type imageInspection struct {
	ID       string `json:"Id"` // without "sha256:"
	RepoTags []string
}

func (i *imageInspection) digest() string { return "sha256:" + i.ID }

func (c *client) inspectImage(ctx context.Context, ref string) (*imageInspection, error) {
	found := &imageInspection{}
	return found, c.get(ctx, imagePath(ref)+"/json", found)
}

// imagePath is the image's place in the API. Slashes in its name stay.
func imagePath(ref string) string {
	return "/images/" + strings.ReplaceAll(url.PathEscape(ref), "%2F", "/")
}

// imageOf returns the image that a reference means, and loads it if it is in a
// file. It does so once for each reference.
func (e *Engine) imageOf(ctx context.Context, c *client, ref string) (loaded, error) {
	e.images.Lock()
	defer e.images.Unlock()
	if l, ok := e.loaded[ref]; ok {
		return l, nil
	}
	img, err := e.cfg.Images.Resolve(ctx, ref)
	var l loaded
	switch {
	case errors.Is(err, image.ErrForeign):
		l, err = c.stored(ctx, ref)
	case err == nil:
		l, err = e.load(ctx, c, img)
	}
	if err == nil {
		e.loaded[ref] = l
	}
	return l, err
}

func (e *Engine) forget(ref string) {
	e.images.Lock()
	defer e.images.Unlock()
	delete(e.loaded, ref)
}

// stored finds an image in Podman's own store.
func (c *client) stored(ctx context.Context, ref string) (loaded, error) {
	found, err := c.inspectImage(ctx, ref)
	if gone(err) {
		return loaded{}, fmt.Errorf("%s %w %q: fetch it first with `podman pull %s`, or %s", c.name, bench.ErrNoImage, ref, ref, image.NamedElsewhere(ref))
	}
	if err != nil {
		return loaded{}, c.failed("inspect image "+ref, err)
	}
	return loaded{name: ref, digest: found.digest()}, nil
}

// FindImage implements bench.ImageFinder.
func (e *Engine) FindImage(ctx context.Context, name string) (err error) {
	c, done, err := e.borrow(ctx)
	defer func() { err = errors.Join(err, done()) }()
	if err == nil {
		_, err = c.stored(ctx, name)
	}
	return err
}

// SaveImage implements bench.ImageSaver.
func (e *Engine) SaveImage(ctx context.Context, name string, w io.Writer) (err error) {
	c, done, err := e.borrow(ctx)
	defer func() { err = errors.Join(err, done()) }()
	if err != nil {
		return err
	}
	if _, err := c.stored(ctx, name); err != nil {
		return err
	}
	answer, err := c.send(ctx, http.MethodGet, imagePath(name)+"/get?format=docker-archive", "", nil)
	if err != nil {
		return c.failed("save image "+name, err)
	}
	defer func() { _ = answer.Body.Close() }() // it was only read
	_, err = io.Copy(w, answer.Body)
	return ended(ctx, err)
}

// load hands an image to Podman, and verifies what it made of it.
func (e *Engine) load(ctx context.Context, c *client, img *image.Image) (loaded, error) {
	name, err := e.imageName(img)
	if err != nil {
		return loaded{}, err
	}
	if l, err := e.present(ctx, c, img, name); err != nil || l != (loaded{}) {
		return l, err
	}
	e.sent[name] = true // also if the answer is lost
	if err := c.receive(ctx, img, name); err != nil {
		return loaded{}, c.failed("load image "+img.Ref(), err)
	}
	found, err := c.inspectImage(ctx, name)
	if err != nil {
		return loaded{}, c.failed("inspect image "+name, err)
	}
	if found.digest() != img.Digest() {
		return loaded{}, errors.Join(
			fmt.Errorf("%s: image %s became %s instead of %s", e.cfg.Name, img.Ref(), found.digest(), img.Digest()),
			c.removeImage(ctx, name),
		)
	}
	return loaded{name: name, digest: img.Digest()}, nil
}

// imageName is the name under which an image is loaded.
func (e *Engine) imageName(img *image.Image) (string, error) {
	short := strings.TrimPrefix(img.Digest(), "sha256:")
	if len(short) < 12 {
		return "", fmt.Errorf("image %s: not a digest: %q", img.Ref(), img.Digest())
	}
	short = short[:12]
	if img.Ref() == image.Agent {
		short = "agent"
	}
	return repository + e.cfg.Run + "/" + e.cfg.Name + "/" + short + ":latest", nil
}

// present returns the image as Podman has it already; the zero value if it
// does not. One that others have under some name gets ours beside it, so that
// it stays as long as anybody needs it. One without any name is used as it is:
// whoever takes the last name off an image deletes it.
func (e *Engine) present(ctx context.Context, c *client, img *image.Image, name string) (loaded, error) {
	found, err := c.inspectImage(ctx, strings.TrimPrefix(img.Digest(), "sha256:"))
	if gone(err) || err == nil && found.digest() != img.Digest() {
		return loaded{}, nil
	}
	if err != nil {
		return loaded{}, c.failed("inspect image "+img.Digest(), err)
	}
	l := loaded{name: name, digest: img.Digest()}
	if len(found.RepoTags) == 0 {
		l.name = found.ID
		return l, nil
	}
	e.sent[name] = true // also if the answer is lost
	tag := url.Values{"repo": {strings.TrimSuffix(name, ":latest")}, "tag": {"latest"}}
	err = c.post(ctx, imagePath(found.ID)+"/tag?"+tag.Encode(), nil, nil)
	if gone(err) {
		return loaded{}, nil // removed this instant
	}
	if err != nil {
		return loaded{}, c.failed("tag image "+found.ID, err)
	}
	return l, nil
}

// receive streams the image to Podman without keeping it anywhere.
func (c *client) receive(ctx context.Context, img *image.Image, name string) error {
	r, w := io.Pipe()
	go func() { w.CloseWithError(img.WriteDockerArchive(w, name)) }()
	defer func() { _ = r.Close() }() // ends the writer; it was only read
	return c.transfer(ctx, r)
}

// LoadImage implements bench.ImageLoader.
func (e *Engine) LoadImage(ctx context.Context, archive io.Reader, name, digest string) error {
	c, err := e.client(ctx, "")
	if err != nil {
		return err
	}
	if err := c.awake(ctx); err != nil {
		return err
	}
	if err := c.transfer(ctx, archive); err != nil {
		return c.failed("load image "+name, err)
	}
	found, err := c.inspectImage(ctx, name)
	if err != nil {
		return c.failed("inspect image "+name, err)
	}
	if found.digest() != digest {
		return fmt.Errorf("%s: image %s became %s instead of %s", e.cfg.Name, name, found.digest(), digest)
	}
	return nil
}

// transfer streams an archive to Podman.
func (c *client) transfer(ctx context.Context, archive io.Reader) error {
	answer, err := c.send(ctx, http.MethodPost, "/images/load", "application/x-tar", archive)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }() // it was only read
	_, err = io.Copy(io.Discard, io.LimitReader(answer.Body, maxAnswer))
	return ended(ctx, err)
}

// removeImage removes a name, and the image if it has no other.
func (c *client) removeImage(ctx context.Context, name string) error {
	if err := c.remove(ctx, imagePath(name)); err != nil {
		return c.failed("remove image "+name, err)
	}
	return nil
}
