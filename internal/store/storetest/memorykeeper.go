package storetest

import (
	"context"
	"fmt"
	"io/fs"

	"github.com/tare-bench/tare/internal/bench"
)

// Named returns the ID of the run of that name.
func (m *Memory) Named(ctx context.Context, name string) (id string, err error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if id = m.named(name); id == "" {
		return "", fmt.Errorf("run named %.80q: %w", name, fs.ErrNotExist)
	}
	return id, nil
}

// named is the ID of the run of that name; empty where there is none.
func (m *Memory) named(name string) string {
	for id, run := range m.runs {
		if name != "" && run.Header.Name == name {
			return id
		}
	}
	return ""
}

// Rename gives a run another name, or takes it away.
func (m *Memory) Rename(ctx context.Context, id, name string) error {
	if name != "" {
		if err := bench.ValidRunName(name); err != nil {
			return err
		}
	}
	return m.write(ctx, id, func(h *bench.Header) error {
		if owner := m.named(name); owner != "" && owner != id {
			return &bench.NameTaken{Name: name, ID: owner}
		}
		h.Name = name
		return nil
	})
}

// Annotate adds a remark to those of a run.
func (m *Memory) Annotate(ctx context.Context, id string, r bench.Remark) error {
	if err := bench.ValidRemark(r); err != nil {
		return err
	}
	return m.write(ctx, id, func(h *bench.Header) error {
		if len(h.Remarks) >= bench.MaxRemarks {
			return fmt.Errorf("run %s: %w", id, bench.ErrManyRemarks)
		}
		h.Remarks = append(h.Remarks, r)
		return nil
	})
}

func (m *Memory) write(ctx context.Context, id string, change func(*bench.Header) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	run, err := m.open(id)
	if err != nil {
		return err
	}
	return change(&run.Header)
}

// Remove removes a run.
func (m *Memory) Remove(ctx context.Context, id string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, err := m.open(id); err != nil {
		return err
	}
	delete(m.runs, id)
	return nil
}
