// Package imagetest gives tests tare's own image, built from the present sources, so that tests do
// not depend on "make build":
//
//	lib := imagetest.Library(t)
//	img, err := lib.Resolve(ctx, image.Agent)
//
// If the agent cannot be built here, as by a user without a home directory or on a machine without
// Go, TARE_TEST_AGENT names the file of an agent that was built before.
package imagetest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/tare-bench/tare/internal/image"
)

// AgentVariable names, in the environment, the file of an agent.
const AgentVariable = "TARE_TEST_AGENT"

// Library returns a Library below the test's directory, whose agent is Agent's.
func Library(tb testing.TB) *image.Library {
	tb.Helper()
	return image.NewLibrary(tb.TempDir(), image.WithAgent(Agent(tb)))
}

// Agent returns the agent for this machine. It is built, or read, once per process.
func Agent(tb testing.TB) []byte {
	tb.Helper()
	b, err := built()
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

var (
	// goTool is looked up before a test can change PATH.
	goTool, errGo = exec.LookPath("go")
	// built builds the agent on first use.
	built = sync.OnceValues(build)
)

func build() (binary []byte, err error) {
	if file := os.Getenv(AgentVariable); file != "" {
		return os.ReadFile(file)
	}
	if errGo != nil {
		return nil, fmt.Errorf("build the agent: %w", errGo)
	}
	dir, err := os.MkdirTemp("", "tare-agent-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }() // at worst a leftover in the temporary directory
	file := filepath.Join(dir, "tare-agent")
	cmd := exec.Command(goTool, "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w -E tare_start", "-o", file,
		"github.com/tare-bench/tare/cmd/tare-agent")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build the agent: %w\n%s", err, out)
	}
	return os.ReadFile(file)
}
