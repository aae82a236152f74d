package cli_test

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/tare-bench/tare/internal/image"
)

var update = flag.Bool("update", false, "rewrite the expected output in the scripts")

// The test binary is also the programs that scripts and faults execute: each
// is a real process with a real exit code.
func TestMain(m *testing.M) {
	if _, err := image.AgentBinary(); err != nil {
		fmt.Fprintf(os.Stderr, "these tests need the agent inside the test binary ('make agent'): %v\n", err)
		os.Exit(1)
	}
	// The race detector would let every process sleep for a second before it exits.
	if err := os.Setenv("GORACE", "atexit_sleep_ms=0 "+os.Getenv("GORACE")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	testscript.Main(m, programs())
}
