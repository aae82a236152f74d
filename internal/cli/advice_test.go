package cli

import (
	"errors"
	"fmt"
	"testing"

	"github.com/tare-bench/tare/internal/app"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/run"
)

// Whatever kind of problem there is, it is a mistake of the user's or there is advice.
func TestEveryProblemHasAdvice(t *testing.T) {
	for _, kind := range app.Kinds() {
		if a := adviceFor(&app.Problem{Kind: kind, Err: errors.New("x"), Run: "id", Names: []string{"a"}}); a == (advice{}) {
			t.Errorf("%s: no advice", kind)
		}
	}
}

// Of several errors one is enough to make it the user's mistake, and the first that has
// advice gives it: the outer before the inner.
func TestClassify(t *testing.T) {
	problem := func(kind app.Kind, err error) error { return &app.Problem{Kind: kind, Err: err, Run: "id", Trials: 3} }
	broken := errors.New("broken")
	for _, tt := range []struct {
		err  error
		code int
		hint string
	}{
		{broken, exitFailed, ""},
		{problem(app.NoRuns, broken), exitUsage, "'tare run' makes one"},
		{
			errors.Join(problem(app.NoRegistry, broken), problem(app.NoLayout, broken)),
			exitUsage, "check the name of the registry, and that this machine can reach it",
		},
		{problem(app.NoImage, fmt.Errorf("x: %w", problem(app.NoProgram, broken))), exitUsage, "check how it is spelt"},
		{problem(app.Interrupted, run.ErrInterrupted), exitInterrupted, "tare resume id"},
		{
			problem(app.Stopped, problem(app.LeftBehind, broken)),
			exitFailed, "the 3 measured trials are stored; solve the problem, then: tare resume id",
		},
		{
			problem(app.NothingPossible, bench.ErrUnsupported),
			exitUnsupported, "'tare doctor' shows which engines work here; 'tare plan' shows what the cells need",
		},
		{&hintError{problem(app.NoRuns, broken), "do"}, exitUsage, "do"},
	} {
		if code, hint := classify(tt.err); code != tt.code || hint != tt.hint {
			t.Errorf("%v: %d, %q; want %d, %q", tt.err, code, hint, tt.code, tt.hint)
		}
	}
}
