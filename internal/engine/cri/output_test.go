package cri_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/tare-bench/tare/internal/engine/enginetest"
)

// What came is passed on, and what is missing or is no log is an error.
func TestOutput(t *testing.T) {
	for name, test := range map[string]struct {
		log    string
		stdout string
		stderr string
		ok     bool
	}{
		"two streams": {"T stdout F out\nT stderr P err\n", "out\n", "err", true},
		"joined":      {"T stdout P a\nT stderr F x\nT stdout F b\n", "ab\n", "x\n", true},
		"none":        {"", "", "", true},
		"cut":         {"T stdout F out\nT stdout F mo", "out\nmo", "", false},
		"no log":      {"HELLO, WORLD\n", "", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(nil)
			var file string
			f.answer("CreateContainer", func(_ context.Context, request any) (any, error) {
				r := request.(*cri.CreateContainerRequest)
				file = filepath.Join(r.SandboxConfig.LogDirectory, r.Config.LogPath)
				return &cri.CreateContainerResponse{ContainerId: "c1"}, nil
			})
			f.answer("StartContainer", func(context.Context, any) (any, error) {
				return &cri.StartContainerResponse{}, write(file, test.log)
			})
			e := with(t, f)
			if err := e.Prepare(t.Context(), own()); err != nil {
				t.Fatal(err)
			}
			c, err := e.Create(t.Context(), own())
			if err != nil {
				t.Fatal(err)
			}
			enginetest.Printed(t, c, test.stdout, test.stderr, test.ok)
			if err := c.Remove(t.Context()); err != nil {
				t.Error(err)
			}
			if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the log is left: %v", err)
			}
		})
	}
}

// write adds to a file, as a server adds to a log.
func write(name, text string) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// A log that nobody closes is waited for no longer than the context says.
func TestLogWithoutEnd(t *testing.T) {
	e := with(t, newFake(nil))
	if err := e.Prepare(t.Context(), own()); err != nil {
		t.Fatal(err)
	}
	c, err := e.Create(t.Context(), own())
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Attach(t.Context(), nil, nil); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := c.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Wait = %v, want context.DeadlineExceeded", err)
	}
	if err := c.Remove(t.Context()); err != nil {
		t.Error(err)
	}
}

// A process that cannot be seen from here is looked for once: the server is asked
// for more than the state.
func TestProcessThatIsNotSeen(t *testing.T) {
	f, looks, searches, after := newFake(nil), 0, 0, 0
	e := with(t, f)
	if err := e.Prepare(t.Context(), own()); err != nil {
		t.Fatal(err)
	}
	c, err := e.Create(t.Context(), own())
	if err != nil {
		t.Fatal(err)
	}
	until := time.Now().Add(time.Minute) // if it is never looked for
	f.answer("ContainerStatus", func(_ context.Context, request any) (any, error) {
		looks++
		if searches > 0 {
			after++ // the first search
		}
		if request.(*cri.ContainerStatusRequest).Verbose {
			searches++
		}
		state := exited(0)
		if after < 10 && time.Now().Before(until) {
			state.Status.State = cri.ContainerState_CONTAINER_RUNNING
		}
		return state, nil
	})
	if _, err := c.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if searches != 1 {
		t.Errorf("looked %d times, and %d times for the process", looks, searches)
	}
	if err := c.Remove(t.Context()); err != nil {
		t.Error(err)
	}
}
