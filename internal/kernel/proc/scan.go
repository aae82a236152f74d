package proc

import (
	"bytes"
	"iter"
	"math"
)

// lines are the lines of text, without line ends.
func lines(text []byte) iter.Seq[[]byte] {
	return func(yield func(line []byte) bool) {
		for rest := text; len(rest) > 0; {
			var line []byte
			if line, rest = nextLine(rest); !yield(line) {
				return
			}
		}
	}
}

// entries are the lines of text, each cut after its first field. Like lines, it allocates nothing
// if the loop over it is in a named function and not in a returned function literal.
func entries(text []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(key, rest []byte) bool) {
		for rest := text; len(rest) > 0; {
			var line []byte
			if line, rest = nextLine(rest); !yield(nextField(line)) {
				return
			}
		}
	}
}

// nextLine cuts the first line off text.
func nextLine(text []byte) (line, rest []byte) {
	if before, after, ok := bytes.Cut(text, []byte{'\n'}); ok {
		return before, after
	}
	return text, nil
}

// nextField cuts the first blank-separated field off line. It is empty at the
// end.
func nextField(line []byte) (field, rest []byte) {
	i := 0
	for i < len(line) && (line[i] == ' ' || line[i] == '\t') {
		i++
	}
	j := i
	for j < len(line) && line[j] != ' ' && line[j] != '\t' {
		j++
	}
	return line[i:j], line[j:]
}

// number reads a decimal number with an optional fraction; NaN if it is not one.
func number(field []byte) float64 {
	n, scale, point := 0.0, 1.0, false
	for _, c := range field {
		switch {
		case c >= '0' && c <= '9':
			n = n*10 + float64(c-'0')
			if point {
				scale *= 10
			}
		case c == '.' && !point:
			point = true
		default:
			return math.NaN()
		}
	}
	if len(field) == 0 || len(field) > 40 {
		return math.NaN()
	}
	return n / scale
}

// first reads the first field of a line as a number; NaN if it is not one.
func first(line []byte) float64 {
	field, _ := nextField(line)
	return number(field)
}

// hex reads a hexadecimal number; NaN if it is not one.
func hex(field []byte) float64 {
	n := 0.0
	for _, c := range field {
		switch {
		case c >= '0' && c <= '9':
			n = n*16 + float64(c-'0')
		case c >= 'a' && c <= 'f':
			n = n*16 + float64(c-'a') + 10
		default:
			return math.NaN()
		}
	}
	if len(field) == 0 || len(field) > 16 {
		return math.NaN()
	}
	return n
}

// numbers reads as many fields as dst holds and returns how many there were.
func numbers(line []byte, dst []float64) int {
	for i := range dst {
		var f []byte
		if f, line = nextField(line); len(f) == 0 {
			return i
		}
		dst[i] = number(f)
	}
	return len(dst)
}

// sum adds up the numbers of a line.
func sum(line []byte) float64 {
	all := math.NaN()
	for field, rest := nextField(line); len(field) > 0; field, rest = nextField(rest) {
		if math.IsNaN(all) {
			all = 0
		}
		all += number(field)
	}
	return all
}
