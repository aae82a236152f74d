package bench

import "context"

// A FleetKeeper is a Store that keeps fleets, too: what ties the runs that the nodes of a cluster have measured.
// It does not look into them.
type FleetKeeper interface {
	// PutFleet stores what is known of a fleet, in place of what was stored of it. The ID is as that of a run;
	// errors.Is(err, ErrRunID) if it cannot be one.
	PutFleet(ctx context.Context, id string, data []byte) error

	// Fleet returns what was stored last. errors.Is(err, fs.ErrNotExist) if there is no such fleet.
	Fleet(ctx context.Context, id string) ([]byte, error)

	// Fleets returns the IDs of all fleets, the last in alphabetical order first, which is the newest.
	Fleets(ctx context.Context) ([]string, error)

	// RemoveFleet removes a fleet, and none of its runs. errors.Is(err, fs.ErrNotExist) if there is none.
	RemoveFleet(ctx context.Context, id string) error
}
