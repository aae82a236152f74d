package load

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tare-bench/tare/internal/load/turn"
	"github.com/tare-bench/tare/internal/text/unit"
)

// Args are the options of a load. The methods read one option each and keep errors;
// Err returns them, and the options that no method has read.
type Args struct {
	// Turns is the page of a process that takes turns with others; nil = it works alone.
	Turns *turn.Page

	given map[string]string
	asked map[string]bool
	err   error
}

// A ValueError is the error of an option with a wrong value.
type ValueError struct {
	Key, Value string
	Want       string // the values that are allowed
}

func (e *ValueError) Error() string { return fmt.Sprintf("%s=%.80s: want %s", e.Key, e.Value, e.Want) }

// Valid checks one option by itself, with a load's rule for all of its options. The
// error does not name the option: the caller does.
func Valid(key, value string, rule func(*Args) error) error {
	err := rule(&Args{given: map[string]string{key: value}, asked: map[string]bool{}})
	var wrong *ValueError
	if errors.As(err, &wrong) && wrong.Key == key {
		return fmt.Errorf("%.80q: want %s", value, wrong.Want)
	}
	return err
}

// ParseArgs reads KEY=VALUE words.
func ParseArgs(words []string) (*Args, error) {
	a := &Args{given: map[string]string{}, asked: map[string]bool{}}
	for _, w := range words {
		key, value, ok := strings.Cut(w, "=")
		if _, twice := a.given[key]; !ok || key == "" || twice {
			return nil, fmt.Errorf("%.80q: want KEY=VALUE, each key once", w)
		}
		a.given[key] = value
	}
	return a, nil
}

// Words returns options in the form that ParseArgs reads, sorted by key.
func Words(options map[string]string) []string {
	var words []string
	for _, key := range slices.Sorted(maps.Keys(options)) {
		words = append(words, key+"="+options[key])
	}
	return words
}

// Text returns an option, or otherwise if it was not given.
func (a *Args) Text(key, otherwise string) string {
	a.asked[key] = true
	if v, ok := a.given[key]; ok {
		return v
	}
	return otherwise
}

// Int returns a whole number from least to most.
func (a *Args) Int(key string, otherwise, least, most int64) int64 {
	text := a.Text(key, strconv.FormatInt(otherwise, 10))
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < least || n > most {
		a.fail(key, text, fmt.Sprintf("a whole number from %d to %d", least, most))
	}
	return n
}

// Bytes returns a size, such as 128MiB, from least to most.
func (a *Args) Bytes(key, otherwise string, least, most int64) int64 {
	text := a.Text(key, otherwise)
	n, err := unit.ParseBytes(text)
	if err != nil || n < least || n > most {
		a.fail(key, text,
			fmt.Sprintf("a size from %s to %s, such as 64MiB", unit.Format(float64(least), unit.Bytes),
				unit.Format(float64(most), unit.Bytes)))
	}
	return n
}

// Duration returns a time from least to most.
func (a *Args) Duration(key string, otherwise, least, most time.Duration) time.Duration {
	text := a.Text(key, otherwise.String())
	d, err := time.ParseDuration(text)
	if err != nil || d < least || d > most {
		a.fail(key, text, fmt.Sprintf("a duration from %v to %v", least, most))
	}
	return d
}

// Word returns one of the words.
func (a *Args) Word(key, otherwise string, words ...string) string {
	text := a.Text(key, otherwise)
	if text != otherwise && !slices.Contains(words, text) {
		a.fail(key, text, "one of "+strings.Join(words, ", "))
	}
	return text
}

func (a *Args) fail(key, text, want string) {
	a.err = errors.Join(a.err, &ValueError{key, text, want})
}

// Err returns the errors of the options that were read, and of options that were given
// but do not exist.
func (a *Args) Err() error {
	err := a.err
	for _, key := range slices.Sorted(maps.Keys(a.given)) {
		if !a.asked[key] {
			err = errors.Join(err, fmt.Errorf("there is no option %.80q", key))
		}
	}
	return err
}
