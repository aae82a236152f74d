package podman

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/owned"
)

// An imageInspection is the part of Podman's answer about an image that tare uses.
type imageInspection struct {
	ID       string `json:"Id"` // without "sha256:"
	RepoTags []string
}

// imagePath is the image's path in the API. Slashes in its name stay as they are.
func imagePath(ref string) string {
	return "/images/" + strings.ReplaceAll(url.PathEscape(ref), "%2F", "/")
}

// Image implements owned.Store.
func (c *client) Image(ctx context.Context, ref string) (owned.Stored, error) {
	var found imageInspection
	err := c.get(ctx, imagePath(strings.TrimPrefix(ref, "sha256:"))+"/json", &found)
	return owned.Stored{ID: found.ID, Digest: "sha256:" + found.ID, Names: found.RepoTags}, err
}

// Gone implements owned.Store.
func (*client) Gone(err error) bool { return gone(err) }

// Tag implements owned.Store.
func (c *client) Tag(ctx context.Context, id, name string) error {
	tag := url.Values{"repo": {strings.TrimSuffix(name, ":latest")}, "tag": {"latest"}}
	return c.post(ctx, imagePath(id)+"/tag?"+tag.Encode(), nil, nil)
}

// Receive implements owned.Store.
func (c *client) Receive(ctx context.Context, archive io.Reader) error {
	answer, err := c.send(ctx, http.MethodPost, "/images/load", "application/x-tar", archive)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }() // it was only read
	_, err = io.Copy(io.Discard, io.LimitReader(answer.Body, maxAnswer))
	return bench.Because(ctx, err)
}

// removeImage removes an image's name, and the image itself if it has no other name.
func (c *client) removeImage(ctx context.Context, name string) error {
	return c.failed("remove image "+name, c.remove(ctx, imagePath(name)))
}

// FindImage implements bench.ImageFinder.
func (e *Engine) FindImage(ctx context.Context, name string) error {
	return e.withClient(ctx, func(c *client) error {
		_, err := e.images.Find(ctx, c, name)
		return err
	})
}

// SaveImage implements bench.ImageSaver.
func (e *Engine) SaveImage(ctx context.Context, name string, w io.Writer) error {
	return e.withClient(ctx, func(c *client) error {
		if _, err := e.images.Find(ctx, c, name); err != nil {
			return err
		}
		answer, err := c.send(ctx, http.MethodGet, imagePath(name)+"/get?format=docker-archive", "", nil)
		if err != nil {
			return c.failed("save image "+name, err)
		}
		defer func() { _ = answer.Body.Close() }() // it was only read
		_, err = io.Copy(w, answer.Body)
		return bench.Because(ctx, err)
	})
}

// LoadImage implements bench.ImageLoader.
func (e *Engine) LoadImage(ctx context.Context, archive io.Reader, name, digest string) error {
	c, err := e.client(ctx, "")
	if err != nil {
		return err
	}
	if err := c.ensureService(ctx); err != nil {
		return err
	}
	return e.images.Import(ctx, c, archive, name, digest)
}
