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

// lifeParams returns the options of both workloads.
func lifeParams() []bench.Param {
	return []bench.Param{
		{
			Name: "operations", Default: defaultSequence, Valid: validSequence,
			Doc: "operations on each container, as an ordered list of: " + strings.Join(operationNames(), ", "),
		},
		{
			Name: "grace", Default: defaultGrace, Valid: func(s string) error { _, err := parseGrace(s); return err },
			Doc: "how long stop waits for the process to end after SIGTERM, in whole seconds, such as 10s; the " +
				"same for every engine",
		},
		{
			Name: "exec", Default: "",
			Doc: "program and arguments for exec, as a list; default for tare's own image: a program that exits at " +
				"once",
		},
	}
}

func parseGrace(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil || d < time.Second || d > time.Hour || d%time.Second != 0 {
		return 0, fmt.Errorf("%.40q is not a duration in whole seconds between 1s and 1h", s)
	}
	return d, nil
}

// number reads a validated option.
func number(t bench.Task, name string) int {
	n, _ := strconv.Atoi(t.Params[name])
	return n
}
