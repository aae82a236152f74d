// Package loadtest helps to test loads.
package loadtest

import "github.com/tare-bench/tare/internal/load"

// Args returns options from KEY=VALUE words. It panics if they have another form, or if
// one is given twice.
func Args(words ...string) *load.Args {
	a, err := load.ParseArgs(words)
	if err != nil {
		panic(err)
	}
	return a
}
