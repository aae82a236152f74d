package netpath

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/vishvananda/netlink"
)

// Others make interfaces while the kernel's table of them is read: then it is read
// again.
func TestWhileInterfacesCome(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("making a network namespace takes root")
	}
	pid := other(t)
	h, err := at(pid)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	made := make(chan error, 1)
	go func() { made <- bridges(h, 90) }() // fewer than the times that it is read again
	for {
		_, err := Queues(pid)
		if err == nil {
			_, err = Attachment(pid)
		}
		if err != nil {
			t.Error(err)
		}
		select {
		case err := <-made:
			if err != nil {
				t.Error(err)
			}
			return
		default:
		}
	}
}

// bridges makes so many.
func bridges(h *netlink.Handle, n int) error {
	for i := range n {
		if err := h.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: fmt.Sprintf("b%d", i)}}); err != nil {
			return err
		}
	}
	return nil
}

// other starts a process in a network namespace of its own.
func other(t *testing.T) int {
	t.Helper()
	cmd := exec.Command("sleep", "1000")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cmd.Process.Kill(); err != nil {
			t.Error(err)
		}
		_ = cmd.Wait() // killed
	})
	return cmd.Process.Pid
}
