package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/tare-bench/tare/internal/bench"
)

// CheckName reports why the next run cannot be called so, as a Problem; nil if it can. An
// empty name is none.
func CheckName(ctx context.Context, s bench.Store, name string) error {
	if name == "" {
		return nil
	}
	if err := bench.ValidRunName(name); err != nil {
		return &Problem{Kind: BadName, Err: err}
	}
	id, err := s.Named(ctx, name)
	switch {
	case err == nil:
		return named(&bench.NameTaken{Name: name, ID: id})
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	return notAnID(ctx, s, name)
}

// notAnID refuses a name by which a user would mean another run: its ID, or a part of it.
func notAnID(ctx context.Context, s bench.Store, name string) error {
	found, err := s.Find(ctx, name, 2)
	if err != nil {
		return err
	}
	for _, id := range found {
		err := fmt.Errorf("%q means a stored run already: its ID begins or ends so", name)
		return &Problem{Kind: BadName, Err: err, Run: id}
	}
	return nil
}

// named makes a Problem of a name that another run has; other errors stay as they are.
func named(err error) error {
	var taken *bench.NameTaken
	switch {
	case errors.As(err, &taken):
		return &Problem{Kind: NameTaken, Err: taken, Run: taken.ID}
	case errors.Is(err, bench.ErrRunName):
		return &Problem{Kind: BadName, Err: err}
	}
	return err
}

// Rename gives a stored run another name, or takes it away where that is empty. A name that
// it cannot have is a Problem.
func Rename(ctx context.Context, s bench.Store, id, name string) error {
	owner, err := s.Named(ctx, name)
	if err == nil && owner == id {
		return nil // it is called so
	}
	if err := CheckName(ctx, s, name); err != nil {
		return err
	}
	return named(s.Rename(ctx, id, name))
}

// Note writes a note on a stored run. What cannot be noted is a Problem.
func (a *App) Note(ctx context.Context, s bench.Store, id, text string) error {
	r := bench.Remark{Time: a.config.Now().UTC(), Text: text}
	if err := bench.ValidRemark(r); err != nil {
		return &Problem{Kind: BadRemark, Err: err}
	}
	err := s.Annotate(ctx, id, r)
	if errors.Is(err, bench.ErrManyRemarks) {
		return &Problem{Kind: ManyRemarks, Err: err, Run: id}
	}
	return err
}
