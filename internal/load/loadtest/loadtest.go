// Package loadtest helps to test loads.
package loadtest

import "github.com/tare-bench/tare/internal/load"

// Args are options, written KEY=VALUE. It panics where they are not, or one is
// given twice.
func Args(words ...string) *load.Args {
	a, err := load.ParseArgs(words)
	if err != nil {
		panic(err)
	}
	return a
}
