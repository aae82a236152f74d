package podman

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
	found, err := survey[imageInspection](ctx, c, imagePath(strings.TrimPrefix(ref, "sha256:"))+"/json")
	return owned.Stored{ID: found.ID, Digest: "sha256:" + found.ID, Names: found.RepoTags}, err
}

// Gone implements owned.Store.
func (*client) Gone(err error) bool { return gone(err) }

// Tag implements owned.Store.
func (c *client) Tag(ctx context.Context, id, name string) error {
	tag := url.Values{"repo": {strings.TrimSuffix(name, ":latest")}, "tag": {"latest"}}
	return again(ctx, func() error { return c.post(ctx, imagePath(id)+"/tag?"+tag.Encode(), nil, nil) })
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

// Pull implements bench.Puller with one call. When the call returns, Podman has unpacked every
// layer.
func (e *Engine) Pull(ctx context.Context, spec bench.Spec) error {
	if err := bench.CheckPull(spec); err != nil {
		return fmt.Errorf("%s: %w", e.cfg.Name, err)
	}
	c, err := e.client(ctx, spec.Runtime)
	if err != nil {
		return err
	}
	if err := e.check(ctx, c, spec); err != nil {
		return err
	}
	err = e.images.Pull(ctx, spec.Image,
		func() error { return bench.Because(ctx, c.pull(ctx, spec.Image)) },
		func(ctx context.Context) error { return e.Evict(ctx, spec) })
	return c.failed("pull "+spec.Image, err)
}

func (c *client) pull(ctx context.Context, ref string) error {
	query := url.Values{"reference": {ref}, "tlsVerify": {"false"}, "policy": {"always"}, "quiet": {"true"}}
	answer, err := c.send(ctx, http.MethodPost, "/images/pull?"+query.Encode(), "application/json", nil)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }() // it was only read
	return pullError(io.LimitReader(answer.Body, maxAnswer))
}

// pullError reads the messages that Podman sends during a pull, and returns the error that one of
// them reports. The last message of a successful pull has the image's ID.
func pullError(r io.Reader) error {
	done := false
	for messages := json.NewDecoder(r); ; {
		var m struct {
			ID    string `json:"id"`
			Error string `json:"error"`
		}
		switch err := messages.Decode(&m); {
		case errors.Is(err, io.EOF) && !done:
			return errors.New("the answer of Podman ends without an image")
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case m.Error != "":
			return fmt.Errorf("%.500q", m.Error)
		}
		done = done || m.ID != ""
	}
}

// Evict implements bench.Puller.
func (e *Engine) Evict(ctx context.Context, spec bench.Spec) error {
	if err := bench.CheckPull(spec); err != nil {
		return fmt.Errorf("%s: %w", e.cfg.Name, err)
	}
	c, err := e.client(ctx, "")
	if err != nil {
		return err
	}
	return e.images.Evict(spec.Image, spec.Image, func() error { return c.removeImage(ctx, spec.Image) })
}
