package podman_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/apitest"
	"github.com/tare-bench/tare/internal/kernel/cgroup"
	"github.com/tare-bench/tare/internal/kernel/cgroup/cgrouptest"
	"github.com/tare-bench/tare/internal/kernel/proc"
)

// What Podman leaves running of a container that it says it has removed is a failed
// removal, and ended by the next one, whichever way its groups are named.
func TestRemoveEndsWhatIsLeft(t *testing.T) {
	h, _ := cgrouptest.Live(t)
	for manager, name := range map[string]string{
		"cgroupfs": "/libpod_parent/libpod-%s", "systemd": "/machine.slice/libpod-%s.scope",
	} {
		t.Run(manager, func(t *testing.T) {
			id := fmt.Sprintf("tare-test-%d", os.Getpid())
			group := fmt.Sprintf(name, id)
			process := runIn(t, h, group)
			e, _ := open(t, apitest.Answers{
				"GET /info": apitest.Reply(200, `{"host":{"cgroupControllers":["cpu","cpuset","memory","pids"],"cgroupVersion":"v1","cgroupManager":"`+manager+`",
					"ociRuntime":{"name":"crun"}},"store":{"graphDriverName":"overlay"},"version":{"Version":"4.3.1"}}`),
				"POST /containers/create":  apitest.Reply(201, `{"Id":"`+id+`"}`),
				"DELETE /containers/" + id: apitest.Reply(200, `[{"Id":"`+id+`"}]`),
			})
			spec := bench.Spec{Image: "own", Argv: []string{"x"}}
			if err := e.Prepare(t.Context(), spec); err != nil {
				t.Fatal(err)
			}
			c, err := e.Create(t.Context(), spec)
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Remove(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := e.Gone(t.Context(), c); err == nil || !strings.Contains(err.Error(), "still runs") {
				t.Errorf("Gone: %v, want an error that says that a process runs on", err)
			}
			if err := c.Remove(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := e.Gone(t.Context(), c); err != nil {
				t.Errorf("Gone after the second Remove: %v", err)
			}
			if left, err := h.Procs(group); err != nil || len(left) > 0 || proc.IsRunning("/", process) {
				t.Errorf("left: processes %d, %v", left, err)
			}
		})
	}
}

// runIn starts a process in a group that it makes, and returns its number.
func runIn(t *testing.T, h *cgroup.Hierarchy, group string) int {
	t.Helper()
	_, above := h.Limits(filepath.Dir(group))
	if err := h.Create(group, cgroup.Limits{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		err := h.Remove(context.Background(), group)
		if above != nil { // the group above is the test's own, too
			err = errors.Join(err, h.Prune(group))
		}
		if err != nil {
			t.Error(err)
		}
	})
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // it is killed
		close(ended)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it is dead unless the test failed
		<-ended
	})
	if err := h.Attach(group, cmd.Process.Pid); err != nil {
		t.Fatal(err)
	}
	return cmd.Process.Pid
}

// What Podman could not do at once is a failed removal: another try, which may
// succeed, is no part of it.
func TestRemoveIsOneCall(t *testing.T) {
	calls := 0
	e, _ := open(t, apitest.Answers{"DELETE /containers/c1": func(w http.ResponseWriter, r *http.Request) {
		if calls++; calls == 1 {
			apitest.Reply(500, `{"message":"unlinkat shm: device or resource busy"}`)(w, r)
			return
		}
		apitest.Reply(200, `[{"Id":"c1"}]`)(w, r)
	}})
	spec := bench.Spec{Image: "own", Argv: []string{"x"}}
	if err := e.Prepare(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	c, err := e.Create(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Remove(t.Context()); err == nil || calls != 1 {
		t.Errorf("Remove = %v after %d calls, want an error after one", err, calls)
	}
	if err := c.Remove(t.Context()); err != nil {
		t.Errorf("the second Remove: %v", err)
	}
}
