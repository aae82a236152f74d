package experiment

import (
	"errors"
	"fmt"
	"math"
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/experiment/yamldoc"
	"github.com/tare-bench/tare/internal/text/unit"
)

// text is any line of text that is not empty.
func text() value[string] {
	return word("text", schema{"type": []string{"string", "number", "boolean"}}, parseText)
}

func parseText(s string) (string, error) {
	const most = 1000
	switch {
	case s == "":
		return "", errors.New("the text is empty")
	case utf8.RuneCountInString(s) > most:
		return "", fmt.Errorf("the text is longer than %d characters", most)
	case strings.ContainsFunc(s, unicode.IsControl):
		return "", fmt.Errorf("%s is not one line of text", yamldoc.Quote(s))
	}
	return s, nil
}

// anyText is text that may be empty or long, such as an argument.
func anyText() value[string] {
	return word("text", schema{"type": []string{"string", "number", "boolean"}}, func(s string) (string, error) {
		if strings.ContainsRune(s, 0) {
			return "", errors.New("the text contains a NUL byte")
		}
		return s, nil
	})
}

var identifierForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// identifier is a name that becomes part of labels, tables and file names.
func identifier() value[string] {
	return word("a name", schema{"type": "string", "pattern": identifierForm.String()}, parseIdentifier)
}

func parseIdentifier(s string) (string, error) {
	if !identifierForm.MatchString(s) {
		return "", fmt.Errorf(
			"%s is not a name: up to 64 letters, digits, '.', '_' and '-', beginning with a letter or digit", yamldoc.Quote(s),
		)
	}
	return s, nil
}

func boolean() value[bool] {
	return word("true or false", schema{"type": "boolean"}, func(s string) (bool, error) {
		switch s {
		case "true":
			return true, nil
		case "false":
			return false, nil
		}
		return false, fmt.Errorf("%s is neither true nor false", yamldoc.Quote(s))
	})
}

// count is a whole number within limits.
func count(least, most int64) value[int64] {
	want := fmt.Sprintf("a whole number, at least %d", least)
	s := schema{"type": "integer", "minimum": least}
	if most != math.MaxInt64 {
		want = fmt.Sprintf("a whole number from %d to %d", least, most)
		s["maximum"] = most
	}
	return word(want, s, func(s string) (int64, error) {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil || n < least || n > most {
			return 0, fmt.Errorf("%s is not %s", yamldoc.Quote(s), want)
		}
		return n, nil
	})
}

func seed() value[uint64] {
	s := schema{"type": "integer", "minimum": 0}
	return word("a whole number", s, func(s string) (uint64, error) {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%s is not a whole number from 0 to 2^64-1", yamldoc.Quote(s))
		}
		return n, nil
	})
}

// cpuQuota is a number of CPUs.
func cpuQuota() value[float64] {
	s := schema{"type": "number", "exclusiveMinimum": 0}
	return word("a number of CPUs such as 0.5", s, func(s string) (float64, error) {
		v, err := strconv.ParseFloat(s, 64)
		if err != nil || !(v >= 0.01 && v <= 1e4) { // also refuses NaN
			return 0, fmt.Errorf("%s is not a number of CPUs: at least 0.01, such as 0.5 for half of one", yamldoc.Quote(s))
		}
		return v, nil
	})
}

var cpuListForm = regexp.MustCompile(`^[0-9]{1,5}(-[0-9]{1,5})?(,[0-9]{1,5}(-[0-9]{1,5})?)*$`)

func cpuList() value[string] {
	s := schema{"type": []string{"string", "integer"}, "pattern": cpuListForm.String()}
	return word("a list of CPUs such as 0-1,3", s, func(s string) (string, error) {
		if len(s) > 1000 || !cpuListForm.MatchString(s) {
			return "", fmt.Errorf("%s is not a list of CPUs such as 0-1,3", yamldoc.Quote(s))
		}
		return s, nil
	})
}

func size() value[int64] {
	s := schema{"type": "string", "pattern": `^[0-9.]+ *([kKMGT]i?)?B$`}
	return word("a size such as 64MiB", s, func(s string) (int64, error) {
		if n, err := strconv.ParseInt(s, 10, 64); err == nil && n > 0 {
			return 0, fmt.Errorf("size %s has no unit; write %dB, or 64MiB or 1.5GB", yamldoc.Quote(s), n)
		}
		n, err := unit.ParseBytes(s)
		if err == nil && n == 0 {
			err = fmt.Errorf("size %s must be greater than zero", yamldoc.Quote(s))
		}
		return n, err
	})
}

// duration is a time above zero.
func duration() value[time.Duration] {
	s := schema{"type": "string", "pattern": `^([0-9.]+ *(d|h|m|s|ms|us|µs|ns) *)+$`}
	return word("a duration such as 30s", s, func(s string) (time.Duration, error) {
		d, err := unit.ParseDuration(s)
		if err == nil && d == 0 {
			err = fmt.Errorf("duration %s must be greater than zero", yamldoc.Quote(s))
		}
		return d, err
	})
}

// slice is the length of a turn: long enough that giving it costs little, and shorter than any limit.
func slice() value[time.Duration] {
	const least, most = time.Millisecond, 10 * time.Second
	d := duration()
	return word("a duration from 1ms to 10s", d.schema, func(s string) (time.Duration, error) {
		d, err := unit.ParseDuration(s)
		if err == nil && (d < least || d > most) {
			err = fmt.Errorf("duration %s must be from 1ms to 10s", yamldoc.Quote(s))
		}
		return d, err
	})
}

// openFraction is a ratio above 0 and below 1.
func openFraction() value[float64] {
	s := schema{
		"type": []string{"string", "number"}, "pattern": `^[0-9.]+ *%?$`, "exclusiveMinimum": 0, "exclusiveMaximum": 1,
	}
	return word("a percentage such as 3%", s, func(s string) (float64, error) {
		v, err := unit.ParsePercent(s)
		if err == nil && (v <= 0 || v >= 1) {
			err = fmt.Errorf("percentage %s is not between 0%% and 100%%", yamldoc.Quote(s))
		}
		return v, err
	})
}

// imageRef is a reference to an image. Names in an engine's own store are checked by
// the engine.
func imageRef() value[string] {
	v := text()
	return word(v.want, v.schema, func(s string) (string, error) {
		scheme, name, _ := strings.Cut(s, ":")
		switch {
		case name == "" && (scheme == "oci" || scheme == "tar" || scheme == "host"):
			return "", fmt.Errorf("%s is incomplete: write oci:DIR, tar:FILE or host:PROGRAM", yamldoc.Quote(s))
		case s == "docker://":
			return "", fmt.Errorf("%s is incomplete: write docker://REF", yamldoc.Quote(s))
		case scheme == "host" && strings.Contains(name, "/") && !path.IsAbs(name):
			return "", fmt.Errorf("%s is neither the name of a program nor an absolute path", yamldoc.Quote(name))
		}
		return parseText(s)
	})
}

// absolutePath wants one that begins at the root, because a relative one would mean
// another file on the next machine.
func absolutePath() value[string] {
	return word("an absolute path", schema{"type": "string", "pattern": "^/"}, func(s string) (string, error) {
		if !path.IsAbs(s) || strings.ContainsFunc(s, unicode.IsControl) {
			return "", fmt.Errorf("%s is not an absolute path", yamldoc.Quote(s))
		}
		return path.Clean(s), nil
	})
}

// blocks is how many blocks to run.
type blocks struct{ min, max placed[int64] }

// blockRange reads 20, 10..500 or {min: 10, max: 500}.
func blockRange() value[blocks] {
	number := located(count(1, bench.MaxBlocks))
	pair := object("a mapping of min and max", []key[blocks]{
		fieldOf("min", "The least number of blocks.", "min: 10", number, func(b *blocks) *placed[int64] { return &b.min }),
		fieldOf("max", "The largest number of blocks.", "max: 500", number, func(b *blocks) *placed[int64] { return &b.max }),
	})
	want := "a number of blocks such as 20, or a range such as 10..500"
	s := schema{"anyOf": []any{number.schema, schema{"type": "string", "pattern": `^[0-9]+\.\.[0-9]+$`}, pair.schema}}
	v := value[blocks]{want, s, func(r *reader, n yamldoc.Node) (blocks, bool) {
		low, high, isRange := strings.Cut(n.Text, "..")
		switch {
		case n.Kind == yamldoc.Mapping:
			return pair.read(r, n)
		case n.Kind == yamldoc.Scalar && isRange:
			first, okLow := number.read(r, yamldoc.Node{Kind: yamldoc.Scalar, At: n.At, Text: low})
			last, okHigh := number.read(r, yamldoc.Node{Kind: yamldoc.Scalar, At: n.At, Text: high})
			return blocks{first, last}, okLow && okHigh
		case n.Kind == yamldoc.Scalar:
			exactly, ok := number.read(r, n)
			return blocks{exactly, exactly}, ok
		}
		r.WrongKind(n, want)
		return blocks{}, false
	}}
	return checked(v, func(r *reader, n yamldoc.Node, b *blocks) bool {
		if b.min.set && b.max.set && b.min.value > b.max.value {
			r.Fail(n.At, fmt.Sprintf("the least number of blocks, %d, is above the largest, %d", b.min.value, b.max.value), "")
			return false
		}
		return true
	})
}
