package native_test

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/enginetest"
	"github.com/tare-bench/tare/internal/engine/native"
	"github.com/tare-bench/tare/internal/image/imagetest"
)

// shell starts a program of the host that waits to be killed.
func shell(t *testing.T) (*native.Engine, bench.Container) {
	t.Helper()
	e := open(t, enginetest.NewEnv(t, imagetest.Library(t))).(*native.Engine)
	enginetest.Use(t, e)
	c := enginetest.Create(t, e, bench.Spec{Argv: []string{"sleep", "1000"}, Env: []string{"A=b"}})
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return e, c
}

// A writer that says what came first.
type first chan string

func (f first) Write(p []byte) (int, error) {
	select {
	case f <- string(p):
	default:
	}
	return len(p), nil
}

// Pausing stops what Exec has started, too, and the end of the first process
// ends it.
func TestExecBelongsToTheContainer(t *testing.T) {
	e, c := shell(t)
	out := make(first, 1)
	ended := make(chan bench.Exit, 1)
	go func() {
		exit, err := e.Exec(t.Context(), c, []string{"sh", "-c", "echo $$ $A; while :; do :; done"}, out, nil)
		if err != nil {
			t.Error(err)
		}
		ended <- exit
	}()
	words := strings.Fields(<-out)
	if len(words) != 2 || words[1] != "b" {
		t.Fatalf("printed %q, want its number and the container's environment", words)
	}
	pid, err := strconv.Atoi(words[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Pause(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); state(t, pid) != "T"; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("a process of Exec goes on while the container is paused")
		}
	}
	if err := e.Resume(t.Context(), c); err != nil || state(t, pid) == "T" {
		t.Errorf("Resume = %v, and a process of Exec is in state %s", err, state(t, pid))
	}
	if err := e.Signal(t.Context(), c, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if exit := <-ended; exit != (bench.Exit{Code: 137, Signal: 9}) {
		t.Errorf("Exec ends with %+v, want it killed", exit)
	}
}

// state is the letter of a process's state.
func state(t *testing.T, pid int) string {
	t.Helper()
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		t.Fatal(err)
	}
	return string(bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])[0])
}

// Nothing is done to a process that is gone: its number can be another's.
func TestOperationsAfterTheEnd(t *testing.T) {
	e, c := shell(t)
	if err := e.Signal(t.Context(), c, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{
		"Pause":  e.Pause(t.Context(), c),
		"Resume": e.Resume(t.Context(), c),
		"Signal": e.Signal(t.Context(), c, syscall.SIGTERM),
	} {
		if err == nil {
			t.Errorf("%s of a process that has ended succeeds", name)
		}
	}
}
