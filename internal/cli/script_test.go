package cli_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/tare-bench/tare/internal/text/plain"
)

// Each script is AREA_what.txtar: what a user types, and what must come of it.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:       filepath.Join("testdata", "script"),
		Setup:     scriptEnv,
		Condition: condition,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"parses": parses, "exits": exits, "runs": runs, "plain": isPlain,
		},
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		UpdateScripts:       *update,
	})
}

// scriptEnv gives each script a store, a state directory and a home of its own.
func scriptEnv(e *testscript.Env) error {
	home := filepath.Join(e.WorkDir, "home")
	e.Setenv("HOME", home)
	e.Setenv("TARE_STORE", filepath.Join(e.WorkDir, "store", "tare.db"))
	e.Setenv("TARE_STATE", filepath.Join(e.WorkDir, "state"))
	e.Setenv("TERM", "xterm")
	e.Setenv("GORACE", os.Getenv("GORACE"))
	// The least that a run can be: scripts are about words, not numbers.
	e.Setenv("SMALL", "--blocks=6")
	return os.Mkdir(home, 0o755)
}

// condition knows [mounts], whether this user can mount, and [engine:NAME],
// whether that engine can be used here. One that must be, and cannot, is an
// error.
func condition(name string) (bool, error) {
	if name == "mounts" {
		return exec.Command("readonly", os.TempDir(), "true").Run() == nil, nil
	}
	engine, ok := strings.CutPrefix(name, "engine:")
	if !ok {
		return false, fmt.Errorf("no condition %q", name)
	}
	why, err := missing(engine)
	if err != nil || why == "" {
		return err == nil, err
	}
	if slices.Contains(strings.Split(os.Getenv("TARE_TEST_ENGINES"), ","), engine) {
		return false, fmt.Errorf("%s is listed in TARE_TEST_ENGINES and cannot be used: %s", engine, why)
	}
	return false, nil
}

// missing says why an engine cannot be used here; empty if it can.
func missing(engine string) (string, error) {
	found, err := examined()
	if err != nil {
		return "", err
	}
	for _, e := range found {
		switch {
		case e.Name != engine:
		case e.Usable:
			return "", nil
		default:
			return e.Why, nil
		}
	}
	return "there is no such engine", nil
}

type examinedEngine struct {
	Name   string
	Usable bool
	Why    string
}

// examined is what doctor says of the engines, asked once.
var examined = sync.OnceValues(func() ([]examinedEngine, error) {
	dir, err := os.MkdirTemp("", "tare-doctor-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }() // at worst a leftover in the temporary directory
	out, err := exec.Command("tare", "doctor", "--json", "--state", dir).Output()
	if err != nil {
		return nil, fmt.Errorf("tare doctor: %w", err)
	}
	var result struct{ Engines []examinedEngine }
	return result.Engines, json.Unmarshal(out, &result)
})

// parses wants every line of a file, or the whole of it, to be JSON.
func parses(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: parses FILE")
	}
	text := ts.ReadFile(args[0])
	if !json.Valid([]byte(text)) {
		ts.Fatalf("%s is not JSON:\n%s", args[0], text)
	}
}

// isPlain wants a file of text that shows itself: no controls but tabs and the ends of
// lines, and nothing invisible.
func isPlain(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: plain FILE")
	}
	text := ts.ReadFile(args[0])
	if args[0] == "stdout" {
		text = strings.ReplaceAll(text, "\r\n", "\n") // of CSV
	}
	if shown := plain.Text(text); shown != text {
		ts.Fatalf("%s is not plain:\n%s", args[0], shown)
	}
}

// exits runs a program and wants a certain exit code:
//
//	exits CODE PROGRAM [ARGUMENT...]
//
// Like after exec, "stdout" and "stderr" are what it said.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM [ARGUMENT...]")
	}
	err := ts.Exec(args[1], args[2:]...)
	code := 0
	var status *exec.ExitError
	if errors.As(err, &status) {
		code, err = status.ExitCode(), nil
	}
	if err != nil {
		ts.Fatalf("%v", err)
	}
	if fmt.Sprint(code) != args[0] {
		ts.Fatalf("exit code %d, want %s\n%s", code, args[0], ts.ReadFile("stderr"))
	}
}

// runs sets $RUN1, $RUN2 … to the IDs of the stored runs, newest first.
func runs(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: runs")
	}
	ts.Check(ts.Exec("tare", "list", "--json"))
	var stored []struct{ ID string }
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &stored))
	for i, r := range stored {
		ts.Setenv(fmt.Sprintf("RUN%d", i+1), r.ID)
	}
}
