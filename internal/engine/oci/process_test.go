package oci

import (
	"os/exec"
	"sync"
	"testing"
)

// Removing a container while its process ends must find nothing wrong.
func TestKillWhileItEnds(t *testing.T) {
	for range 50 {
		cmd := exec.Command("true")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		p, err := openProcess(cmd.Process.Pid)
		if err != nil {
			t.Fatal(err)
		}
		var killers sync.WaitGroup
		for range 4 {
			killers.Go(func() {
				for range 20 {
					if err := p.kill(); err != nil {
						t.Errorf("kill: %v", err)
					}
				}
			})
		}
		if _, err := p.wait(); err != nil {
			t.Errorf("wait: %v", err)
		}
		killers.Wait()
	}
}

// Before Linux 5.3 there is no file to wait for.
func TestProcessWithoutFile(t *testing.T) {
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{pid: cmd.Process.Pid}
	if err := p.kill(); err != nil {
		t.Error(err)
	}
	if status, err := p.wait(); err != nil || !status.Signaled() {
		t.Errorf("wait = %v, %v; want it killed", status, err)
	}
	if err := p.kill(); err != nil {
		t.Errorf("kill of one that was waited for: %v", err)
	}
}

func TestOpenProcessThatIsGone(t *testing.T) {
	cmd := exec.Command("true")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	if p, err := openProcess(cmd.Process.Pid); err == nil {
		t.Errorf("openProcess = %+v, want an error", p)
	}
}
