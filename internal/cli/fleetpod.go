package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/tare-bench/tare/internal/fleet"
	"github.com/tare-bench/tare/internal/fleet/pod"
	"github.com/tare-bench/tare/internal/kernel/hostns"
)

// agentPodCommand is what the pods of a fleet run.
func (a *invocation) agentPodCommand() *cobra.Command {
	var root string
	var outside int
	cmd := &cobra.Command{
		Use:    "pod",
		Short:  "Measure on this node for the 'tare fleet run' that has made this pod",
		Hidden: true,
		Args:   noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if outside != 0 {
				if err := a.arrive(outside); err != nil {
					return err
				}
				root = fmt.Sprintf("/proc/%d/root", outside)
			}
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
	cmd.Flags().StringVar(&root, "root", ownRoot, "`directory` that stands before all paths, for tests")
	cmd.Flags().IntVar(&outside, "outside-of", 0, "measure outside of the container whose first process has this `ID`")
	return cmd
}

const ownRoot = "/"

// podOnHost runs the part of this pod on its node, outside of all containers, where the node's engines are.
func (a *invocation) podOnHost(ctx context.Context) error {
	cmd, err := hostns.Self("agent", "pod", "--outside-of", strconv.Itoa(os.Getpid()))
	if err != nil {
		return err
	}
	cmd.Stdout, cmd.Stderr = a.stdout, a.stderr
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
		for _, told := range []<-chan struct{}{a.interrupted, ctx.Done()} { // the second one ends it at once
			select {
			case <-told:
				_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended
			case <-ended:
				return
			}
		}
	}()
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("on the node: %w", err)
	}
	return nil
}

// arrive moves this process out of the pod. When the pod's first process is gone, which nothing else tells, this one ends
// itself, and removes what it has made.
func (a *invocation) arrive(pod int) error {
	if os.Getppid() != pod {
		return &usageError{fmt.Errorf("process %d is not the one that has started this", pod), "'tare fleet run' does that"}
	}
	go func() {
		for os.Getppid() == pod {
			time.Sleep(200 * time.Millisecond)
		}
		_ = syscall.Kill(os.Getpid(), syscall.SIGTERM) // as somebody else would
	}()
	return hostns.Arrive(pod)
}
