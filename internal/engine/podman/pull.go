package podman

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/tare-bench/tare/internal/bench"
)

// pullGrace is how long what a pull has left is looked for after its context has
// ended: the service learns of that by the connection, and then stops.
const pullGrace = 10 * time.Second

// Pull implements bench.Puller with one call. When it returns, every layer is
// unpacked.
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
	e.images.Lock()
	e.sent[spec.Image] = true // also if the answer is lost
	e.images.Unlock()
	err = c.pull(ctx, spec.Image)
	if err == nil {
		return nil
	}
	clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), pullGrace)
	defer cancel()
	return c.failed("pull "+spec.Image, errors.Join(ended(ctx, err), e.Evict(clean, spec)))
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

// pullError reads the messages that Podman sends while it pulls an image, and
// returns the one that says that it failed. The last one of a pull that succeeded
// has the image's ID.
func pullError(r io.Reader) error {
	done := false
	for messages := json.NewDecoder(r); ; {
		var m struct {
			ID    string `json:"id"`
			Error string `json:"error"`
		}
		switch err := messages.Decode(&m); {
		case errors.Is(err, io.EOF) && !done:
			return errors.New("the answer ends without an image")
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
	e.forget(spec.Image)
	if err := c.removeImage(ctx, spec.Image); err != nil {
		return err
	}
	e.images.Lock()
	defer e.images.Unlock()
	delete(e.sent, spec.Image)
	return nil
}
