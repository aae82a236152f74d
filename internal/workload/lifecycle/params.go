package lifecycle

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/tare-bench/tare/internal/bench"
)

const (
	maxPopulation = 1000
	defaultGrace  = "10s"
)

// lifeParams are the options of one life.
func lifeParams() []bench.Param {
	return []bench.Param{
		{
			Name: "operations", Default: usual, Valid: validSequence,
			Doc: "what happens to each container, in this order: " + strings.Join(operationNames(), ", "),
		},
		{
			Name: "grace", Default: defaultGrace, Valid: func(s string) error { _, err := parseGrace(s); return err },
			Doc: "how long stop waits for the process to end after SIGTERM: whole seconds, such as 10s, and the same for every engine",
		},
		{
			Name: "exec", Default: "",
			Doc: "program and arguments of exec, as a list; for tare's own image the default is one that ends at once",
		},
	}
}

func parseGrace(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil || d < time.Second || d > time.Hour || d%time.Second != 0 {
		return 0, fmt.Errorf("%.40q is not a number of whole seconds between 1s and 1h", s)
	}
	return d, nil
}

// between makes a rule for whole numbers.
func between(low, high int) func(string) error {
	return func(s string) error {
		if n, err := strconv.Atoi(s); err != nil || n < low || n > high {
			return fmt.Errorf("%.40q is not a whole number between %d and %d", s, low, high)
		}
		return nil
	}
}

// number reads an option that was held to its rule.
func number(t bench.Task, name string) int {
	n, _ := strconv.Atoi(t.Params[name])
	return n
}
