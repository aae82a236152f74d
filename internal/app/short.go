package app

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"

	"github.com/tare-bench/tare/internal/bench"
)

// leastShort is how short the short form of an ID may be, in characters.
const leastShort = 4

// A Shortener finds short forms of the IDs of stored runs: ends of them, that FindRun takes
// for those runs and for no others.
type Shortener struct {
	store    bench.Store
	forward  []string // the IDs, sorted
	backward []string // the IDs from back to front, sorted
}

// NewShortener returns a Shortener for the runs that are stored now. Where the store cannot
// tell which these are, every short form is the whole ID.
func NewShortener(ctx context.Context, s bench.Store) *Shortener {
	ids, err := s.Find(ctx, "", 0)
	if err != nil {
		return &Shortener{store: s}
	}
	out := &Shortener{store: s, forward: ids}
	for _, id := range ids {
		out.backward = append(out.backward, reversed(id))
	}
	slices.Sort(out.forward)
	slices.Sort(out.backward)
	return out
}

// Short is the short form of a stored run's ID: what is behind its last '-', such as 73eh of
// 20261123-075816-73eh, or more of it where other runs could be meant by that.
func (s *Shortener) Short(ctx context.Context, id string) string {
	for at := len(id) - 1; at > 0; at-- {
		short := id[at:]
		if id[at-1] != '-' || len(short) < leastShort {
			continue
		}
		if beginning(s.forward, short) > 0 || beginning(s.backward, reversed(short)) != 1 {
			continue
		}
		if _, err := s.store.Named(ctx, short); errors.Is(err, fs.ErrNotExist) {
			return short
		}
	}
	return id
}

// beginning counts how many of sorted words begin so: 0, 1, or 2 for more.
func beginning(sorted []string, with string) (n int) {
	at, _ := slices.BinarySearch(sorted, with)
	for ; n < 2 && at < len(sorted) && strings.HasPrefix(sorted[at], with); at++ {
		n++
	}
	return n
}

// reversed is an ID from back to front.
func reversed(id string) string {
	b := []byte(id)
	slices.Reverse(b)
	return string(b)
}

// Shorten has an error and its problems name runs by the short forms of their IDs.
func (s *Shortener) Shorten(ctx context.Context, err error) error {
	for p := range Problems(err) {
		if p.Run != "" {
			short := s.Short(ctx, p.Run)
			p.Err, p.Run = &reworded{p.Err, strings.ReplaceAll(p.Err.Error(), "run "+p.Run, "run "+short)}, short
		}
	}
	if taken := (*bench.NameTaken)(nil); errors.As(err, &taken) {
		taken.ID = s.Short(ctx, taken.ID)
	}
	return err
}

// A reworded error says the same in other words. Paths and names of objects in it keep whole IDs.
type reworded struct {
	error
	text string
}

func (e *reworded) Error() string { return e.text }
func (e *reworded) Unwrap() error { return e.error }
