package containerd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	containerd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/leases"
	"github.com/containerd/containerd/v2/core/remotes/docker"
	"github.com/containerd/log"
	"github.com/sirupsen/logrus"

	"github.com/tare-bench/tare/internal/bench"
)

const (
	pullGrace = 10 * time.Second // to end the lease after a pull
	pullLease = 24 * time.Hour   // after which containerd drops a pull of a killed tare
)

// Pull implements bench.Puller as nerdctl and ctr do it: the client library, in
// this process, fetches the blobs and hands them to containerd, which unpacks each
// layer once it and those below it are there.
func (e *Engine) Pull(ctx context.Context, spec bench.Spec) error {
	if err := bench.CheckPull(spec); err != nil {
		return fmt.Errorf("%s: %w", e.cfg.Name, err)
	}
	s, err := e.server(ctx)
	if err != nil {
		return err
	}
	if _, err := e.check(s, spec); err != nil {
		return err
	}
	err = e.images.Pull(ctx, spec.Image,
		func() error { return bench.Because(ctx, e.pull(ctx, s, spec)) },
		func(ctx context.Context) error { return errors.Join(e.Evict(ctx, spec), s.collect(ctx)) })
	return e.failed("pull "+spec.Image, err)
}

func (e *Engine) pull(ctx context.Context, s *server, spec bench.Spec) error {
	connections := &http.Transport{} // of this pull alone, so none is open already
	defer connections.CloseIdleConnections()
	hosts := docker.ConfigureDefaultRegistries(docker.WithPlainHTTP(docker.MatchLocalhost),
		docker.WithClient(&http.Client{Transport: connections}))
	// The library would end its own lease with the pull's context. After a pull that is cut off,
	// that fails, and all fetched content would stay for a day.
	held, done, err := s.client.WithLease(ctx, leases.WithRandomID(), leases.WithExpiration(pullLease),
		leases.WithLabels(e.labels()))
	if err != nil {
		return err
	}
	_, err = s.client.Pull(log.WithLogger(held, discardLog()), spec.Image,
		containerd.WithResolver(docker.NewResolver(docker.ResolverOptions{Hosts: hosts})),
		containerd.WithPullUnpack,
		containerd.WithPullSnapshotter(e.snapshotterOf(spec)),
		containerd.WithPullLabels(e.labels()),
	)
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), pullGrace)
	defer cancel()
	return errors.Join(err, done(end))
}

// discardLog is a logger that discards: what the client library logs is in its errors too.
func discardLog() *log.Entry {
	return logrus.NewEntry(
		&logrus.Logger{
			Out: io.Discard, Formatter: &logrus.TextFormatter{}, Hooks: logrus.LevelHooks{}, Level: logrus.PanicLevel,
		},
	)
}

// pulled finds an image that Pull has fetched.
func (e *Engine) pulled(ctx context.Context, s *server, ref string) (containerd.Image, error) {
	img, err := s.client.GetImage(ctx, ref)
	if err != nil {
		return nil, e.failed("find image "+ref, err)
	}
	return img, nil
}

// Evict implements bench.Puller. It removes the image's name, and waits until containerd has
// deleted its content and snapshots.
func (e *Engine) Evict(ctx context.Context, spec bench.Spec) error {
	if err := bench.CheckPull(spec); err != nil {
		return fmt.Errorf("%s: %w", e.cfg.Name, err)
	}
	s, err := e.server(ctx)
	if err != nil {
		return err
	}
	key := imageKey{spec.Image, e.snapshotterOf(spec)}
	return e.images.Evict(key, spec.Image, func() error { return e.removeImage(ctx, s, spec.Image) })
}
