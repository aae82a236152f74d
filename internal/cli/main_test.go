package cli_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

var update = flag.Bool("update", false, "rewrite the expected output in the scripts")

// The test binary is also the small programs that scripts execute. tare itself
// is built as users have it.
func TestMain(m *testing.M) { testscript.Main(tareTests{m}, programs()) }

// tareTests are the tests, with tare in PATH.
type tareTests struct{ *testing.M }

func (m tareTests) Run() int {
	dir, err := os.MkdirTemp("", "tare-program-")
	if err == nil {
		err = errors.Join(buildTare(filepath.Join(dir, "tare"), raceDetector), os.Setenv("PATH", dir+":"+os.Getenv("PATH")),
			// The race detector would let every process sleep for a second before it exits.
			os.Setenv("GORACE", "atexit_sleep_ms=0 "+os.Getenv("GORACE")))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }() // at worst a leftover in the temporary directory
	return m.M.Run()
}

// buildTare builds the program, with the agent that 'make agent' left.
func buildTare(path string, race bool) error {
	args, cgo := []string{"build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", path}, "CGO_ENABLED=0"
	if race {
		args, cgo = append(args, "-race"), "CGO_ENABLED=1"
	}
	cmd := exec.Command("go", append(args, "../../cmd/tare")...)
	cmd.Env = append(os.Environ(), cgo)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build tare: %w\n%s", err, out)
	}
	return nil
}
