package owned

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/tare-bench/tare/internal/image"
)

// A Store is an engine's store of named images, as a driver reaches it.
type Store interface {
	// Image finds an image by a name or by its digest.
	Image(ctx context.Context, ref string) (Stored, error)
	// Gone reports whether an error says that there is no such image.
	Gone(err error) bool
	// Tag gives an image one more name.
	Tag(ctx context.Context, id, name string) error
	// Receive reads an archive of images, as docker save writes it.
	Receive(ctx context.Context, archive io.Reader) error
}

// A Stored is an image as a Store has it.
type Stored struct {
	ID     string   // the engine's own
	Digest string   // of its configuration; empty if the engine does not tell it
	Names  []string // all its names
}

// A Loaded is an image that an engine has for a run.
type Loaded struct {
	Name   string // under which the engine knows it
	ID     string // the engine's own
	Digest string // of its configuration; empty if unknown
}

// A Loader brings the images of a library into a Store.
type Loader struct {
	Images[string, Loaded]
	Run     Run
	Library *image.Library
	Fetch   string // the command that fetches an image into the store, such as "docker pull"
}

// Load returns the image that a reference names, and loads it if it is in a file. It does so once
// for each reference.
func (l *Loader) Load(ctx context.Context, s Store, ref string) (Loaded, error) {
	return l.Get(ref, func() (Loaded, error) {
		img, err := l.Library.Resolve(ctx, ref)
		switch {
		case errors.Is(err, image.ErrForeign):
			return l.Find(ctx, s, ref)
		case err != nil:
			return Loaded{}, err
		}
		return l.load(ctx, s, img)
	})
}

// Check loads an image and checks that the store still has it. It loads once more what has gone: another run may
// have removed an image that this one used without a name of its own.
func (l *Loader) Check(ctx context.Context, s Store, ref string) error {
	err := l.check(ctx, s, ref)
	if s.Gone(err) {
		err = l.check(ctx, s, ref)
	}
	return err
}

func (l *Loader) check(ctx context.Context, s Store, ref string) error {
	loaded, err := l.Load(ctx, s, ref)
	if err != nil {
		return err
	}
	if _, err := s.Image(ctx, loaded.Name); err != nil {
		l.Forget(ref)
		return l.Run.CallError("inspect image "+loaded.Name, err)
	}
	return nil
}

// Find finds an image in the engine's own store.
func (l *Loader) Find(ctx context.Context, s Store, ref string) (Loaded, error) {
	found, err := s.Image(ctx, ref)
	if s.Gone(err) {
		return Loaded{}, l.Run.MissingImage(ref, l.Fetch)
	}
	if err != nil {
		return Loaded{}, l.Run.CallError("inspect image "+ref, err)
	}
	return Loaded{ref, found.ID, found.Digest}, nil
}

// load sends an image to the engine, and verifies what the engine stored.
func (l *Loader) load(ctx context.Context, s Store, img *image.Image) (Loaded, error) {
	name, err := l.Run.NameOf(img)
	if err != nil {
		return Loaded{}, err
	}
	if loaded, err := l.present(ctx, s, img, name); err != nil || loaded != (Loaded{}) {
		return loaded, err
	}
	l.Send(name)
	if err := send(ctx, s, img, name); err != nil {
		return Loaded{}, l.Run.CallError("load image "+img.Ref(), err)
	}
	found, err := l.verify(ctx, s, img.Ref(), name, img.Digest())
	if err != nil {
		return Loaded{}, err
	}
	return Loaded{name, found.ID, img.Digest()}, nil
}

// present returns the image if the engine already has it; otherwise the zero value. An image that
// already has a name gets the run's name too, so that it stays while anybody needs it. An image
// without any name is used without one, because removing the last name of an image deletes it: but
// for the agent's, which is tare's own, and which another run may be removing.
func (l *Loader) present(ctx context.Context, s Store, img *image.Image, name string) (Loaded, error) {
	found, err := s.Image(ctx, img.Digest())
	if s.Gone(err) || err == nil && found.Digest != img.Digest() {
		return Loaded{}, nil
	}
	if err != nil {
		return Loaded{}, l.Run.CallError("inspect image "+img.Digest(), err)
	}
	if len(found.Names) == 0 && img.Ref() != image.Agent {
		return Loaded{found.ID, found.ID, img.Digest()}, nil
	}
	l.Send(name)
	err = s.Tag(ctx, found.ID, name)
	if err == nil {
		_, err = s.Image(ctx, name) // a removal of the image's last name, begun before, takes the new name with it
	}
	if s.Gone(err) {
		return Loaded{}, nil // removed just now
	}
	if err != nil {
		return Loaded{}, l.Run.CallError("tag image "+found.ID, err)
	}
	return Loaded{name, found.ID, img.Digest()}, nil
}

// send streams the image to the engine without storing it anywhere.
func send(ctx context.Context, s Store, img *image.Image, name string) error {
	r, w := io.Pipe()
	go func() { w.CloseWithError(img.WriteDockerArchive(w, name)) }()
	defer func() { _ = r.Close() }() // ends the writer
	return s.Receive(ctx, r)
}

// Import sends an archive to the engine, and verifies that name then is the image with that digest:
// see bench.ImageLoader.
func (l *Loader) Import(ctx context.Context, s Store, archive io.Reader, name, digest string) error {
	if err := s.Receive(ctx, archive); err != nil {
		return l.Run.CallError("load image "+name, err)
	}
	_, err := l.verify(ctx, s, name, name, digest)
	return err
}

// verify checks that the image under a name has the digest. If the engine does not tell the digest,
// the name has to be enough.
func (l *Loader) verify(ctx context.Context, s Store, ref, name, digest string) (Stored, error) {
	found, err := s.Image(ctx, name)
	if err != nil {
		return found, l.Run.CallError("inspect image "+name, err)
	}
	if found.Digest != "" && found.Digest != digest {
		return found, fmt.Errorf("%s: image %s: the engine stored it as %s, not as %s", l.Run.Engine, ref,
			found.Digest, digest)
	}
	return found, nil
}
