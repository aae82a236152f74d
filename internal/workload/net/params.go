package net

import (
	"fmt"
	"strconv"
	"time"
)

// between returns a Valid function for whole numbers.
func between(least, most int64) func(string) error {
	return func(s string) error {
		if n, err := strconv.ParseInt(s, 10, 64); err != nil || n < least || n > most {
			return fmt.Errorf("%.40q is not a whole number between %d and %d", s, least, most)
		}
		return nil
	}
}

// allowEmpty returns a Valid function that also accepts an empty value.
func allowEmpty(rule func(string) error) func(string) error {
	return func(s string) error {
		if s == "" {
			return nil
		}
		return rule(s)
	}
}

// durationBetween returns a Valid function for durations.
func durationBetween(least, most time.Duration) func(string) error {
	return func(s string) error {
		if d, err := time.ParseDuration(s); err != nil || d < least || d > most {
			return fmt.Errorf("%.40q is not a duration between %v and %v", s, least, most)
		}
		return nil
	}
}

// selectParams returns the named options.
func selectParams(params map[string]string, names ...string) map[string]string {
	out := make(map[string]string, len(names))
	for _, name := range names {
		if v := params[name]; v != "" {
			out[name] = v
		}
	}
	return out
}
