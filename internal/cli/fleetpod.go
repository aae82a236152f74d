package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/tare-bench/tare/internal/fleet"
	"github.com/tare-bench/tare/internal/fleet/pod"
	"github.com/tare-bench/tare/internal/kernel/hostns"
)

// agentPodCommand is what the pods of a fleet run.
func (a *invocation) agentPodCommand() *cobra.Command {
	var root string
	cmd := &cobra.Command{
		Use:    "pod",
		Short:  "Measure on this node for the 'tare fleet run' that has made this pod",
		Hidden: true,
		Args:   noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			site, err := pod.Open(root, a.env)
			if errors.Is(err, pod.ErrNoPod) {
				return &usageError{err, "'tare fleet run' makes pods that run this"}
			}
			if err != nil {
				return err
			}
			a.graceful.Store(true) // the first signal ends the run after the trial in flight
			if site.Order.Host && root == ownRoot {
				return a.podOnHost(cmd.Context())
			}
			if a.global.State == "" && !site.Order.Host {
				a.global.State = site.Path(fleet.DataDir)
			}
			t, err := a.newApp()
			if err != nil {
				return err
			}
			return t.Pod(cmd.Context(), site, a.stdout, a.interrupted)
		},
	}
	cmd.Flags().StringVar(&root, "root", ownRoot, "`directory` that stands before all paths: of another process's pod, "+
		"or for tests")
	return cmd
}

const ownRoot = "/"

// podOnHost runs the part of this pod on its node, outside of all containers, where the node's engines are. What a pod
// that was killed has left there is removed first, and what this one leaves if it is killed, last.
func (a *invocation) podOnHost(ctx context.Context) error {
	clean := func() {
		if err := a.onHost(ctx, a.stderr, nil, "clean", "--quiet"); err != nil {
			_, _ = fmt.Fprintf(a.stderr, "remove what is left on this node: %v\n", err) // what it is, is said by then
		}
	}
	clean()
	root := fmt.Sprintf("/proc/%d/root", os.Getpid())
	err := a.onHost(ctx, a.stdout, a.interrupted, "agent", "pod", "--root", root)
	if err != nil {
		clean()
	}
	return err
}

// onHost runs this program on the node. When interrupt is closed, it is told to end.
func (a *invocation) onHost(ctx context.Context, stdout io.Writer, interrupt <-chan struct{}, args ...string) error {
	cmd, err := hostns.Self(args...)
	if err != nil {
		return err
	}
	cmd.Stdout, cmd.Stderr = stdout, a.stderr
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root"}
	for _, name := range []string{fleet.EnvNode, fleet.EnvPass, fleet.EnvAddress, fleet.EnvNetwork} {
		cmd.Env = append(cmd.Env, name+"="+a.env(name))
	}
	if err := hostns.Start(cmd); err != nil {
		return fmt.Errorf("start on the node: %w", err)
	}
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		select {
		case <-interrupt:
		case <-ctx.Done():
		case <-ended:
			return
		}
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	}()
	return cmd.Wait()
}
