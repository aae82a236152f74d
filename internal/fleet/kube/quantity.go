package kube

import (
	"math"
	"strconv"
	"strings"
)

// Resources are amounts of what containers use, by name: "cpu" in CPUs, "memory" in bytes, "pods".
type Resources map[string]Quantity

// A Quantity is a number as Kubernetes writes it, such as "250m" or "64Mi".
type Quantity string

// suffixes are what numbers are multiplied by.
var suffixes = []struct {
	text   string
	factor float64
}{
	{"Ki", 1 << 10},
	{"Mi", 1 << 20},
	{"Gi", 1 << 30},
	{"Ti", 1 << 40},
	{"Pi", 1 << 50},
	{"Ei", 1 << 60},
	{"n", 1e-9},
	{"u", 1e-6},
	{"m", 1e-3},
	{"k", 1e3},
	{"M", 1e6},
	{"G", 1e9},
	{"T", 1e12},
	{"P", 1e15},
	{"E", 1e18},
}

// Value is the number, and false if the text is none.
func (q Quantity) Value() (float64, bool) {
	number, factor := string(q), 1.0
	for _, s := range suffixes {
		if rest, ok := strings.CutSuffix(number, s.text); ok {
			number, factor = rest, s.factor
			break
		}
	}
	if strings.Trim(number, "+-.eE0123456789") != "" { // ParseFloat knows more, such as "inf" and "0x1"
		return 0, false
	}
	v, err := strconv.ParseFloat(number, 64)
	v *= factor
	return v, err == nil && !math.IsInf(v, 0)
}
