package unit

import (
	"fmt"
	"math/big"
	"strconv"
	"strings"
)

// maxText bounds what is read as one quantity, so that a hostile file cannot
// make the parser work on megabytes of digits.
const maxText = 64

// ParseBytes reads a size, such as "512", "64MiB", "64 MiB" or "1.5GB", exactly.
// The letters may have either case. It is at least 0 and a whole number of bytes.
// A bare "64M" is refused, because half of all programs take it for MB and the
// other half for MiB.
func ParseBytes(s string) (int64, error) {
	bad := func(what string) (int64, error) {
		return 0, fmt.Errorf("size %.40q %s; write it as 512B, 64MiB or 1.5GB (B, kB, MB, GB, TB; KiB, MiB, GiB, TiB)",
			s, what)
	}
	text := strings.TrimSpace(s)
	if len(text) > maxText {
		return bad("is too long")
	}
	digits, suffix := splitNumber(text)
	if digits == "" {
		return bad("is not a positive number with a unit")
	}
	size, ok := byteUnit(suffix)
	if !ok {
		return bad(fmt.Sprintf("has an unknown unit %q", suffix))
	}
	// Rational, because 1.1 GB in floating point is not a whole number.
	n, ok := new(big.Rat).SetString(digits)
	if !ok {
		return bad("is not a number")
	}
	n.Mul(n, new(big.Rat).SetInt64(size))
	switch {
	case !n.IsInt():
		return bad("is not a whole number of bytes")
	case !n.Num().IsInt64():
		return bad("is too large")
	}
	return n.Num().Int64(), nil
}

// byteUnit returns how many bytes a unit has.
func byteUnit(suffix string) (int64, bool) {
	switch strings.ToLower(suffix) {
	case "", "b":
		return 1, true
	case "kb":
		return 1e3, true
	case "mb":
		return 1e6, true
	case "gb":
		return 1e9, true
	case "tb":
		return 1e12, true
	case "kib":
		return 1 << 10, true
	case "mib":
		return 1 << 20, true
	case "gib":
		return 1 << 30, true
	case "tib":
		return 1 << 40, true
	}
	return 0, false
}

// ParsePercent reads a share from 0 to 1, written as "3%", "2.5 %" or "0.03".
// A bare "3" is refused: it may mean either.
func ParsePercent(s string) (float64, error) {
	bad := func(what string) (float64, error) {
		return 0, fmt.Errorf("percentage %.40q %s; write it as 3%% or 0.03, between 0%% and 100%%", s, what)
	}
	text := strings.TrimSpace(s)
	if len(text) > maxText {
		return bad("is too long")
	}
	digits, suffix := splitNumber(text)
	if digits == "" || suffix != "" && suffix != "%" {
		return bad("is not understood")
	}
	if suffix == "%" {
		digits += "e-2" // exact: dividing by 100 afterwards would round twice
	}
	share, err := strconv.ParseFloat(digits, 64)
	switch {
	case err != nil:
		return bad("is not a number")
	case suffix == "" && share >= 1:
		return bad("has no percent sign")
	case share > 1:
		return bad("is too large")
	}
	return share, nil
}

// splitNumber splits "1.5 GB" into "1.5" and "GB". Signs, exponents and
// hexadecimal digits are no part of the number.
func splitNumber(s string) (digits, suffix string) {
	i := 0
	for i < len(s) && (s[i] >= '0' && s[i] <= '9' || s[i] == '.') {
		i++
	}
	return s[:i], strings.TrimSpace(s[i:])
}
