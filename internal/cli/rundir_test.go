package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// Who cleans while a run begins or ends never has it for a dead one.
func TestRunThatEndsIsNotDead(t *testing.T) {
	state := t.TempDir()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range 200 {
			dir, err := makeRunDir(state, fmt.Sprintf("20261122-000000-%04d", i))
			if err != nil {
				t.Error(err)
				return
			}
			for n := range 20 { // what takes time to delete
				if err := os.WriteFile(filepath.Join(dir.path, fmt.Sprint(n)), nil, 0o600); err != nil {
					t.Error(err)
				}
			}
			if err := dir.remove(); err != nil {
				t.Error(err)
			}
		}
	}()
	for {
		dead, err := deadRuns(state)
		if err != nil || len(dead) > 0 {
			t.Errorf("dead: %v, %v; want none", ids(dead), err)
		}
		release(dead)
		select {
		case <-done:
			if left, err := os.ReadDir(filepath.Join(state, "runs")); err != nil || len(left) > 0 {
				t.Errorf("left: %v, %v", left, err)
			}
			return
		default:
		}
	}
}
