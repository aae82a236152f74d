package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/fleet"
)

// fleetKeeper is a store as one of fleets.
func fleetKeeper(s bench.Store) (bench.FleetKeeper, error) {
	k, ok := s.(bench.FleetKeeper)
	if !ok {
		return nil, fmt.Errorf("%w: this store keeps no fleets", bench.ErrUnsupported)
	}
	return k, nil
}

// Fleets are the IDs of the stored fleets, newest first.
func Fleets(ctx context.Context, s bench.Store) ([]string, error) {
	if _, none := s.(EmptyStore); none {
		return nil, nil
	}
	k, err := fleetKeeper(s)
	if err != nil {
		return nil, err
	}
	return k.Fleets(ctx)
}

// FindFleet reads the fleet that a user means: by its ID, a unique beginning or end of it, or bench.LastRun for the
// newest, as an empty name does. If that is none or several, the error is a Problem.
func FindFleet(ctx context.Context, s bench.Store, name string) (*fleet.Fleet, error) {
	all, err := Fleets(ctx, s)
	if err != nil {
		return nil, err
	}
	var found []string
	switch {
	case len(all) == 0:
		return nil, &Problem{Kind: NoFleets, Err: errors.New("no fleet is stored")}
	case name == "" || name == bench.LastRun:
		found = all[:1]
	default:
		found = slices.DeleteFunc(slices.Clone(all), func(id string) bool {
			return !strings.HasPrefix(id, name) && !strings.HasSuffix(id, name)
		})
	}
	switch len(found) {
	case 0:
		return nil, &Problem{Kind: NoFleet, Err: fmt.Errorf("no fleet %.80q", name), Names: all}
	case 1:
		return readFleet(ctx, s, found[0])
	}
	return nil, &Problem{
		Kind: NoFleet, Names: found,
		Err: fmt.Errorf("%.80q matches %d fleets: %s", name, len(found), strings.Join(found, ", ")),
	}
}

func readFleet(ctx context.Context, s bench.Store, id string) (*fleet.Fleet, error) {
	k, err := fleetKeeper(s)
	if err != nil {
		return nil, err
	}
	text, err := k.Fleet(ctx, id)
	if err != nil {
		return nil, err
	}
	var f fleet.Fleet
	if err := json.Unmarshal(text, &f); err != nil {
		return nil, fmt.Errorf("fleet %s: %w", id, err)
	}
	switch {
	case f.Format > fleet.Format:
		return nil, fmt.Errorf("fleet %s: its format is %d, and this tare reads %d: use a newer tare", id, f.Format,
			fleet.Format)
	case f.ID != id || len(f.Namespaces) == 0:
		return nil, fmt.Errorf("fleet %s: what is stored of it is damaged", id)
	}
	return &f, nil
}
