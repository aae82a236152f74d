package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/store/record"
)

// An ImportedRun is one run that an import has read.
type ImportedRun struct {
	ID      string `json:"id"`
	Name    string `json:"name,omitempty"` // that it has here
	Samples int    `json:"samples"`
	Damaged int    `json:"damaged,omitempty"` // of them: could not be read, and count as failed
	Status  string `json:"status"`            // "imported", "incomplete" or "already stored"
	// Labels are those of what another program has measured; tare's own runs are not said again.
	Labels []bench.Label `json:"labels,omitempty"`
	Sums   bool          `json:"checksums"` // whether its lines have them; false for one that an older version wrote
	// Unnamed says that it came with the name of another run, and has none here.
	Unnamed *bench.NameTaken `json:"name_taken,omitempty"`
}

// Import stores every run of a stream of records, whole or as far as it goes, and returns
// those that it has stored, also with an error: what came before that stays. A run that is
// stored already is left as it is; one that is stored in part continues where it ended. If
// lines are damaged, it stores everything else: see record.Salvager. The error is then
// *record.Faults.
func Import(ctx context.Context, s bench.Store, r io.Reader) ([]ImportedRun, error) {
	i := importing{store: s}
	lines := record.NewSalvager(r)
	err := i.read(ctx, lines)
	return i.all, errors.Join(lines.Faults(), err)
}

// importing stores the runs of one stream while it is read.
type importing struct {
	store bench.Store
	all   []ImportedRun

	current *record.Copier // of the run that is read; nil before the first
	run     ImportedRun
}

// read stores runs whole, or as far as they go. What came before an error stays.
func (i *importing) read(ctx context.Context, d *record.Salvager) error {
	for {
		e, err := d.Next()
		if errors.Is(err, io.EOF) {
			return i.end(ctx)
		}
		if err != nil {
			return errors.Join(err, i.end(ctx))
		}
		if e.Header != nil {
			if err := i.end(ctx); err != nil {
				return err
			}
			if i.current, err = record.NewCopier(ctx, i.store, *e.Header); err != nil {
				return fmt.Errorf("run %s: %w", e.Header.ID, err)
			}
			i.run = ImportedRun{ID: e.Header.ID, Status: "incomplete", Sums: d.Summed()}
			i.run.Name, i.run.Unnamed = i.current.Name()
			continue
		}
		if err := i.current.Add(ctx, e); err != nil {
			return fmt.Errorf("run %s: %w", i.run.ID, errors.Join(err, i.current.Close()))
		}
		if e.Sample != nil {
			i.run.Samples++
			if slices.Contains(e.Sample.Notes, bench.NoteDamaged) {
				i.run.Damaged++
			}
		}
		if e.End != nil {
			i.run.Status = "imported"
		}
	}
}

// end stores the rest of the run that is read, if there is one.
func (i *importing) end(ctx context.Context) error {
	if i.current == nil {
		return nil
	}
	err := errors.Join(i.current.Flush(ctx), i.current.Close())
	if i.current.Known() {
		i.run.Status, i.run.Name = "already stored", ""
	}
	i.current = nil
	if err != nil {
		return fmt.Errorf("run %s: %w", i.run.ID, err)
	}
	i.all = append(i.all, i.run)
	return nil
}
