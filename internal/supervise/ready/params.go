package ready

import (
	"fmt"
	"regexp"
	"strings"
	"time"
)

func validPort(s string) error {
	if s == "" {
		return nil
	}
	_, err := parsePort(s)
	return err
}

// validPath accepts a path that can stand in the first line of a request as it is.
func validPath(s string) error {
	foreign := func(c rune) bool { return c <= ' ' || c > '~' }
	if !strings.HasPrefix(s, "/") || strings.ContainsFunc(s, foreign) {
		return fmt.Errorf("%.80q is not an HTTP path: begin it with /, and write special characters as %%XX", s)
	}
	return nil
}

func validText(s string) error {
	if _, err := regexp.Compile(s); err != nil {
		return fmt.Errorf("%.80q is not a regular expression: %w", s, err)
	}
	return nil
}

const longest = time.Hour

func validTimeout(s string) error {
	if d, err := time.ParseDuration(s); err != nil || d <= 0 || d > longest {
		return fmt.Errorf("%.40q is not a duration of at most %v", s, longest)
	}
	return nil
}
