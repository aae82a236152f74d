package supervise_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/tare-bench/tare/internal/agent"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/supervise"
	"github.com/tare-bench/tare/internal/workload/workloadtest"
)

// What is done while a process is there ends with it.
func TestWhile(t *testing.T) {
	e := engines(t)["native"]
	own := errors.New("mine")
	stays, _ := start(t, e, bench.Limits{}, "hold")
	for _, want := range []error{nil, own} {
		if err := stays.WhileRunning(t.Context(), func(context.Context) error { return want }); !errors.Is(err, want) {
			t.Errorf("While = %v, want %v", err, want)
		}
	}
	ends, _ := start(t, e, bench.Limits{}, "exit", "3")
	err := ends.WhileRunning(t.Context(), func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
	if err == nil || !strings.Contains(err.Error(), "ended with exit status 3") {
		t.Errorf("While = %v, want how the process ended", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err = stays.WhileRunning(ctx, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
	if !errors.Is(err, context.Canceled) || strings.Contains(err.Error(), "process inside") {
		t.Errorf("While = %v, want context.Canceled", err)
	}
}

// lockedBuffer is a buffer for output that comes while it is looked at.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// Who listens hears each output by itself, and the process keeps it as well.
func TestStartHeard(t *testing.T) {
	e := engines(t)["native"]
	var ears []*lockedBuffer
	logWriter := func() io.Writer {
		ears = append(ears, &lockedBuffer{})
		return ears[len(ears)-1]
	}
	spec := bench.Spec{Argv: []string{agent.Path, "echo", "-2", "loud"}}
	if err := e.Prepare(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	m := workloadtest.NewMeter(t)
	p, err := supervise.StartListening(t.Context(), e, spec, m, "", logWriter)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Cleanup(p.Remove)
	if out, err := p.Output(t.Context()); err != nil || len(out) != 0 {
		t.Fatalf("%q, %v", out, err)
	}
	if len(ears) != 2 || ears[0].b.String() != "" || ears[1].b.String() != "loud\n" {
		t.Errorf("%d ears", len(ears))
	}
}
