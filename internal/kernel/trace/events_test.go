package trace

import (
	"encoding/binary"
	"errors"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/kernel/recording"
)

// written is an event as a program writes it: with a negative key of its stack, and with the text and the stack.
func written(k recording.Kind, text string, stack ...uint64) []byte {
	b := make([]byte, eventSize+textSizes[k])
	binary.NativeEndian.PutUint32(b[offKind:], uint32(k))
	binary.NativeEndian.PutUint32(b[offStack:], 1<<32-17) // EEXIST
	copy(b[eventSize:], text)
	if len(stack) > 0 {
		b = append(b, make([]byte, stackSize)...)
		for i, a := range stack {
			binary.NativeEndian.PutUint64(b[len(b)-stackSize+8*i:], a)
		}
	}
	return b
}

// A stack without a key is read from its event, beside the text, and the same one is kept once.
func TestStackInEvent(t *testing.T) {
	tracer := &Tracer{present: &recording.Recording{}, names: func() (symbols, error) {
		return symbols{[]uint64{10, 20, 30}, []string{"bpf_get_stack", "pipe_read", "vfs_read"}}, nil
	}}
	for _, b := range [][]byte{
		written(recording.Wake, "containerd-shim", 11, 21, 31), written(recording.Switch, "", 21, 31),
		written(recording.Wake, "runc", 31), written(recording.Wake, "runc"), written(recording.Switch, "", 21, 31),
		written(recording.Exec, "/usr/bin/runc"),
	} {
		e, ok := parseEvent(b)
		if !ok {
			t.Fatal("no event")
		}
		tracer.raw = append(tracer.raw, e)
	}
	if err := tracer.resolve(); err != nil {
		t.Fatal(err)
	}
	var stacks []int
	var texts []string
	for _, e := range tracer.present.Events {
		stacks, texts = append(stacks, e.Stack), append(texts, e.Text)
	}
	if d := cmp.Diff([]int{0, 1, 2, -1, 1, -1}, stacks); d != "" {
		t.Errorf("stacks (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]string{"containerd-shim", "", "runc", "runc", "", "/usr/bin/runc"}, texts); d != "" {
		t.Errorf("texts (-want +got):\n%s", d)
	}
	want := [][]string{{"pipe_read", "vfs_read"}, {"pipe_read", "vfs_read"}, {"vfs_read"}} // the first ends in what traces
	if d := cmp.Diff(want, tracer.present.Stacks); d != "" {
		t.Errorf("functions (-want +got):\n%s", d)
	}
}

// What the kernel counts as a stack that it did not give is told apart from what got lost, and of each trial alone.
func TestStacksThatAreMissingAreCounted(t *testing.T) {
	tracer, err := Open(Options{})
	if os.Geteuid() != 0 && errors.Is(err, bench.ErrUnsupported) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := tracer.Close(); err != nil {
			t.Error(err)
		}
	}()
	for _, missing := range []uint64{3, 0} {
		tracer.Begin(bench.Trial{Traced: true}, 0)
		if missing > 0 {
			if err := tracer.kept.lost.Put(uint32(0), lost{Stacks: missing}); err != nil {
				t.Fatal(err)
			}
		}
		tracer.End(nil)
		if p := tracer.present; p.Failed != "" || p.NoStack != int(missing) || p.Lost != 0 {
			t.Errorf("%d without a stack, want %d; %d lost, %s", p.NoStack, missing, p.Lost, p.Failed)
		}
	}
}
