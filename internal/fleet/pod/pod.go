// Package pod is the side of a pod: what it is told, and when its rounds begin. It speaks to nobody: it reads files
// that the cluster mounts, and what it has measured goes into its log (package podlog).
package pod

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/fleet"
)

// The largest files that a pod reads: a ConfigMap has 1 MiB at most.
const maxFile = 2 << 20

// A Site is where a pod runs, and what it was told.
type Site struct {
	Root    string // before the paths of all files; "/" in a pod
	Node    string // the node's name
	Pass    int    // 1 or 2
	Address string // of the pod
	Network string // see fleet.EnvNetwork
	Order   fleet.Order
	Source  []byte // what fleet.Fleet.Source has
}

// ErrNoPod is the error of a process that no pod of a fleet is.
var ErrNoPod = errors.New("this is no pod of a fleet")

// Open reads what the pod is told. env returns variables of the environment.
func Open(root string, env func(string) string) (*Site, error) {
	s := &Site{
		Root: root, Node: env(fleet.EnvNode), Address: env(fleet.EnvAddress), Network: env(fleet.EnvNetwork),
	}
	pass, err := strconv.Atoi(env(fleet.EnvPass))
	if s.Node == "" || err != nil || pass < 1 || pass > 2 {
		return nil, fmt.Errorf("%w: %s and %s are not set", ErrNoPod, fleet.EnvNode, fleet.EnvPass)
	}
	s.Pass = pass
	text, err := s.read(fleet.OrderDir, fleet.OrderFile)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoPod, err)
	}
	if err := json.Unmarshal(text, &s.Order); err != nil {
		return nil, fmt.Errorf("%s: %w", fleet.OrderFile, err)
	}
	if err := bench.ValidRunID(s.Order.Fleet); err != nil {
		return nil, fmt.Errorf("%s: %w", fleet.OrderFile, err)
	}
	s.Source, err = s.read(fleet.OrderDir, fleet.SourceFile)
	return s, err
}

// Path is where a file or directory of the pod is.
func (s *Site) Path(elements ...string) string {
	return filepath.Join(append([]string{s.Root}, elements...)...)
}

// Rounds is how many rounds the pass has.
func (s *Site) Rounds() int {
	if s.Pass == 2 {
		return s.Order.Confirm
	}
	return s.Order.Rounds
}

// Run is the ID of the pod's run.
func (s *Site) Run() string { return fleet.RunID(s.Order.Fleet, s.Pass, s.Node) }

// Token is what pods prove to each other; nil if there is none.
func (s *Site) Token() ([]byte, error) {
	text, err := s.read(fleet.TokenFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return text, err
}

func (s *Site) read(elements ...string) ([]byte, error) {
	f, err := os.Open(s.Path(elements...))
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = fmt.Errorf("%s has more than %d bytes", f.Name(), maxFile)
	}
	return text, err
}

// Leave writes the termination message.
func (s *Site) Leave(message []byte) error {
	return os.WriteFile(s.Path(fleet.DigestFile), message, 0o600)
}

// lookEvery is how often a pod looks for its start signal. Kubernetes itself needs a minute.
const lookEvery = time.Second

// ErrNoStart is the error of a pod that waited too long for its start signal.
var ErrNoStart = errors.New("the start signal did not come")

// AwaitStart waits for the signal that says when the rounds begin, at most as long as limit.
func (s *Site) AwaitStart(ctx context.Context, limit time.Duration) (*fleet.Start, error) {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		start, err := s.start()
		if start != nil || err != nil {
			return start, err
		}
		if err := bench.Sleep(limited, lookEvery); err != nil {
			if ctx.Err() == nil {
				err = fmt.Errorf("%w within %v", ErrNoStart, limit)
			}
			return nil, err
		}
	}
}

// start reads the signal; nil if it is not there.
func (s *Site) start() (*fleet.Start, error) {
	text, err := s.read(fleet.StartDir, fleet.StartFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out fleet.Start
	switch err := json.Unmarshal(text, &out); {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", fleet.StartFile, err)
	case out.Pass != s.Pass:
		return nil, nil // of the other pass
	case out.Round <= 0:
		return nil, fmt.Errorf("%s: a round of %v", fleet.StartFile, out.Round)
	}
	return &out, nil
}

// Ahead is how far the clock of the pod's node is ahead of the cluster's, as the signal says.
func (s *Site) Ahead(start *fleet.Start) time.Duration {
	for _, p := range start.Peers {
		if p.Node == s.Node {
			return p.Ahead
		}
	}
	return 0
}

// NextRound is the first round that begins after now, or at it, and that was not begun yet; done is the number of the
// last round that was, -1 for none. ok is false if all rounds are over.
func NextRound(start *fleet.Start, rounds, done int, now time.Time) (round int, at time.Time, ok bool) {
	round = done + 1
	if late := now.Sub(start.Began); late > 0 {
		round = max(round, int((late+start.Round-1)/start.Round))
	}
	return round, start.Began.Add(time.Duration(round) * start.Round), round < rounds
}

// maxNap bounds one sleep, because a wall clock that is set moves the round.
const maxNap = time.Second

// SleepUntil waits until a wall clock has reached a time. The error is the context's.
func SleepUntil(ctx context.Context, now func() time.Time, at time.Time) error {
	for {
		left := at.Round(0).Sub(now().Round(0)) // by the wall clock, not by the monotonic one
		if left <= 0 {
			return ctx.Err()
		}
		if err := bench.Sleep(ctx, min(left, maxNap)); err != nil {
			return err
		}
	}
}
