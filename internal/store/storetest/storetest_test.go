package storetest_test

import (
	"errors"
	"testing"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/store/record"
	"github.com/tare-bench/tare/internal/store/storetest"
)

func TestMemory(t *testing.T) {
	storetest.Run(t, func(*testing.T) bench.Store { return storetest.NewMemory() })
}

func TestMemoryFailsWhereItIsAskedTo(t *testing.T) {
	broken := errors.New("the disk is full")
	m := storetest.NewMemory()
	m.FailAppend(3, broken)
	if err := record.Copy(t.Context(), m, storetest.Example("a", 5)); !errors.Is(err, broken) {
		t.Errorf("error %v, want %v", err, broken)
	}
	run, err := m.Open(t.Context(), "a")
	if err != nil || len(run.Samples) != 3 {
		t.Errorf("%d samples, %v; want 3", len(run.Samples), err)
	}
	m.FailAppend(3, nil)
	w, err := m.Resume(t.Context(), "a", bench.Resumption{Time: run.Header.Began, Seq: 3})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Append(t.Context(), storetest.Example("a", 5).Samples[3]); err != nil {
		t.Error(err)
	}
}
