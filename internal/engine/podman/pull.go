package podman

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/tare-bench/tare/internal/bench"
)

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
