// Package cri drives a server of Kubernetes' container runtime interface, such
// as containerd or CRI-O, over its socket. It does what the kubelet does: it runs a pod sandbox,
// creates a container in it, starts the container, asks for its state, and removes both. Each of
// these is one call over a connection that stays open.
//
// If a Spec leaves something open, the server's own default applies, with two exceptions. Seccomp
// is the server's default profile, which a client must request explicitly. And the network is the
// host's. Every other pod gets the network of the server's CNI configuration, so "none" is
// impossible, and the machine's CNI plugins would be part of every number. Network bridge requests
// them.
package cri

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/datadir"
	"github.com/tare-bench/tare/internal/engine/owned"
	"github.com/tare-bench/tare/internal/image"
)

// Config says which server to drive.
type Config struct {
	Name   string         // of the instance; part of names, so only characters of a run's ID
	Run    string         // ID of the run
	Dir    string         // directory of the run; logs and data of containers lie below it
	Images *image.Library // where images come from

	// Endpoint is the server's socket, such as "unix:///run/crio/crio.sock";
	// empty = the first that exists of containerd's, CRI-O's and cri-dockerd's.
	Endpoint string
	// RuntimeHandler is for pods whose Spec names no runtime; empty = the server's default.
	RuntimeHandler string
	// PauseImage is the server's name for the pause image, which has the first process of its pods.
	// It is needed only if the server does not have that image and names it neither in its
	// configuration nor in its error.
	PauseImage string
}

// Engine is a CRI server.
type Engine struct {
	cfg    Config
	prefix string // of the names of pods

	number atomic.Int64 // of the last pod
	data   *datadir.Manager

	warmedUp sync.Map // by rehearsal: those that were made once

	run    owned.Run
	images owned.Images[string, storedImage] // by reference

	pausing sync.Mutex // held while the image of pods is looked for, and made

	mu      sync.Mutex
	server  *server  // nil until the first call
	adopted []string // sandboxes of containers that others have made
}

// New returns an engine. It touches nothing until the engine is used.
func New(cfg Config) *Engine {
	run := owned.Run{ID: cfg.Run, Engine: cfg.Name}
	return &Engine{cfg: cfg, run: run, prefix: "tare-" + run.Prefix(), data: datadir.New(cfg.Run, cfg.Name, cfg.Dir)}
}

// Name is the name of this instance.
func (e *Engine) Name() string { return e.cfg.Name }

// profile is the path of the file with the seccomp filter, which the server reads.
func (e *Engine) profile() string { return filepath.Join(e.cfg.Dir, "seccomp-"+e.cfg.Name+".json") }

// logs is the directory of the containers' logs.
func (e *Engine) logs() string { return filepath.Join(e.cfg.Dir, "logs-"+e.cfg.Name) }

// Prepare makes sure that the server has the images, that the directory for logs exists, and that
// one container like this was made before, because the first one unpacks the image.
func (e *Engine) Prepare(ctx context.Context, spec bench.Spec) error {
	s, err := e.status(ctx)
	if err != nil {
		return err
	}
	if err := e.check(ctx, s, spec); err != nil {
		return err
	}
	if err := os.MkdirAll(e.logs(), 0o755); err != nil {
		return err
	}
	if err := e.pause(ctx, s); err != nil {
		return err
	}
	if err := e.cfg.Images.CheckProgram(ctx, spec); err != nil {
		return fmt.Errorf("%s: %w", e.cfg.Name, err)
	}
	l, err := e.imageOf(ctx, s, spec.Image)
	if err != nil {
		return err
	}
	found, err := s.image(ctx, l.name)
	if err == nil && found == nil {
		e.images.Forget(spec.Image) // the next one loads it again
		err = errors.New("the server no longer has it")
	}
	if err != nil {
		return e.failed(ctx, "look for image "+l.name, err)
	}
	err = e.warmUp(ctx, spec)
	if name := pauseImageFrom(err); name != "" && e.pauseName(s) == "" && s.store != nil {
		s.missingPauseImage.Store(&name)
		if err = e.pause(ctx, s); err == nil {
			err = e.warmUp(ctx, spec)
		}
	}
	if err != nil && e.pauseName(s) == "" && ctx.Err() == nil {
		err = fmt.Errorf("%w (if the server cannot fetch its pause image: give tare that image's name with the option "+
			"pause, and tare makes the image)", err)
	}
	if err == nil {
		err = e.data.Prepare(spec)
	}
	return err
}

// A warmUpKey is a kind of container that a server makes slowly the first time.
type warmUpKey struct{ image, runtime, network string }

// warmUp makes and removes a container, unless it did so before for one like it. It makes none
// for an image that was just pulled, because there the first container is to be measured.
func (e *Engine) warmUp(ctx context.Context, spec bench.Spec) error {
	like := warmUpKey{spec.Image, spec.Runtime, spec.Network}
	if _, ok := e.warmedUp.Load(like); ok || bench.PulledBy(spec.Image) != "" {
		return nil
	}
	c, err := e.Create(ctx, spec)
	if err != nil {
		return err
	}
	if err := c.Remove(ctx); err != nil {
		return err
	}
	e.warmedUp.Store(like, true)
	return nil
}

// Close removes the images that Prepare loaded, and the logs.
func (e *Engine) Close(ctx context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.server == nil {
		return nil // nothing was made
	}
	images := func(name string) error {
		if bench.PulledBy(name) != "" {
			return e.evict(ctx, e.server, name)
		}
		return e.removeImage(ctx, e.server, e.cfg.Run, name)
	}
	err := errors.Join(
		e.removeAdopted(ctx, e.server), e.data.Close(), e.images.Close(images),
		os.RemoveAll(e.logs()), os.RemoveAll(e.profile()), e.server.conn.Close(),
	)
	e.server = nil
	return err
}

// failed adds to an error which call of this engine failed.
func (e *Engine) failed(ctx context.Context, call string, err error) error {
	return e.run.CallError(call, serverError(ctx, err))
}

// serverError is a server's error; nil stays nil. If the context has ended, that is the cause. The server's message is
// cut to a readable length.
func serverError(ctx context.Context, err error) error {
	answer, ok := status.FromError(err)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case ok && answer.Code() == codes.DeadlineExceeded: // the server noticed the deadline first
		return context.DeadlineExceeded
	case ok:
		return fmt.Errorf("%s: %.1000q", answer.Code(), answer.Message())
	}
	return err
}

// isNotFound reports whether the server says that there is no such object.
func isNotFound(err error) bool { return status.Code(err) == codes.NotFound }

// isNameGone reports whether containerd knows the image that it was asked for, but has no image of the name by which
// it opens it.
func isNameGone(err error) bool {
	return isNotFound(err) && strings.Contains(status.Convert(err).Message(), "failed to get image from containerd")
}
