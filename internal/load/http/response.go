package http

import (
	"bytes"
	"errors"
)

// The bounds of what a server may say beside the bodies of its answers.
const (
	maxLine = 8 << 10  // one line
	maxHead = 64 << 10 // all lines before a body, or after it
)

var (
	errNotHTTP = errors.New("what came is not HTTP/1.1")
	errEndless = errors.New("the head of the answer has no end")
	errEarly   = errors.New("the server closed before the answer was whole")
)

// stage says what of an answer comes next.
type stage int

const (
	atStatus stage = iota
	atHeader
	inBody     // of a length that is known
	untilClose // a body that ends with the connection
	atChunk    // the line with its size
	inChunk
	afterChunk // the end of its line
	atTrailer
	whole
)

// A response reads one answer, as it comes in, in pieces of any size. It keeps
// nothing but the beginning of a line, and of the body only its length. Reset
// makes it ready for the next one.
type response struct {
	stage   stage
	line    []byte // the beginning of a line whose end has not come
	head    int    // bytes of lines since they were last counted from 0
	status  int
	length  int64 // that the head says the body has; -1 where it does not
	left    int64 // bytes of the body, or of the chunk, that have not come
	body    int64 // bytes of the body that have come
	chunked bool
	closes  bool // the server closes the connection afterwards
}

func newResponse() response { return response{line: make([]byte, 0, maxLine), length: -1} }

func (r *response) reset() { *r = response{line: r.line[:0], length: -1} }

// feed takes in what came, up to the end of the answer, and returns how much
// that was.
func (r *response) feed(p []byte) (used int, err error) {
	for used < len(p) && r.stage != whole && err == nil {
		switch r.stage {
		case inBody, inChunk:
			n := min(int64(len(p)-used), r.left)
			used += int(n)
			r.took(n)
		case untilClose:
			r.body += int64(len(p) - used)
			used = len(p)
		default:
			var n int
			n, err = r.lines(p[used:])
			used += n
		}
	}
	return used, err
}

// took counts bytes of a body or of a chunk.
func (r *response) took(n int64) {
	r.body += n
	r.left -= n
	switch {
	case r.left > 0:
	case r.stage == inChunk:
		r.stage = afterChunk
	default:
		r.stage = whole
	}
}

// end is told that the connection was closed.
func (r *response) end() error {
	if r.stage != untilClose {
		return errEarly
	}
	r.stage = whole
	return nil
}

// lines takes in one line, or the beginning of one.
func (r *response) lines(p []byte) (used int, err error) {
	end := bytes.IndexByte(p, '\n')
	used = end + 1
	if end < 0 {
		used = len(p)
	}
	r.head += used
	if r.head > maxHead || len(r.line)+used > maxLine {
		return used, errEndless
	}
	if end < 0 {
		r.line = append(r.line, p...)
		return used, nil
	}
	line := p[:end]
	if len(r.line) > 0 {
		line = append(r.line, line...)
		r.line = r.line[:0]
	}
	return used, r.take(bytes.TrimSuffix(line, []byte("\r")))
}

// take reads one line.
func (r *response) take(line []byte) error {
	switch r.stage {
	case atStatus:
		return r.takeStatus(line)
	case atHeader:
		if len(line) == 0 {
			return r.headEnds()
		}
		return r.takeHeader(line)
	case atChunk:
		return r.takeSize(line)
	case afterChunk:
		if len(line) > 0 {
			return errNotHTTP
		}
		r.stage, r.head = atChunk, 0
	case atTrailer:
		if len(line) == 0 {
			r.stage = whole
		}
	}
	return nil
}

// takeStatus reads "HTTP/1.1 200 OK".
func (r *response) takeStatus(line []byte) error {
	const version = "HTTP/1."
	if len(line) < len(version)+5 || string(line[:len(version)]) != version || line[len(version)+1] != ' ' {
		return errNotHTTP
	}
	switch minor := line[len(version)]; minor {
	case '0':
		r.closes = true
	case '1':
	default:
		return errNotHTTP
	}
	code := line[len(version)+2:]
	status, ok := number(code[:3], 10)
	if !ok || status < 100 || len(code) > 3 && code[3] != ' ' {
		return errNotHTTP
	}
	r.status, r.stage = int(status), atHeader
	return nil
}

// takeHeader reads a line of the head. What it does not need it passes over.
func (r *response) takeHeader(line []byte) error {
	if line[0] == ' ' || line[0] == '\t' {
		return nil // the line before goes on
	}
	colon := bytes.IndexByte(line, ':')
	if colon <= 0 {
		return errNotHTTP
	}
	name := line[:colon]
	switch len(name) {
	case len("connection"):
		if is(name, "connection") {
			r.takeConnection(line[colon+1:])
		}
	case len("content-length"):
		if is(name, "content-length") {
			return r.takeLength(blank(line[colon+1:]))
		}
	case len("transfer-encoding"):
		if is(name, "transfer-encoding") {
			if !is(blank(line[colon+1:]), "chunked") {
				return errNotHTTP // nothing else was asked for
			}
			r.chunked = true
		}
	}
	return nil
}

func (r *response) takeConnection(value []byte) {
	for len(value) > 0 {
		word := value
		if comma := bytes.IndexByte(value, ','); comma >= 0 {
			word, value = value[:comma], value[comma+1:]
		} else {
			value = nil
		}
		switch word = blank(word); {
		case is(word, "close"):
			r.closes = true
		case is(word, "keep-alive"):
			r.closes = false
		}
	}
}

func (r *response) takeLength(value []byte) error {
	n, ok := number(value, 10)
	if !ok || r.length >= 0 && r.length != n {
		return errNotHTTP
	}
	r.length = n
	return nil
}

// headEnds says what follows the head.
func (r *response) headEnds() error {
	switch {
	case r.status == 101:
		return errNotHTTP // nobody asked for another protocol
	case r.status < 200: // the answer itself is still to come
		head := r.head
		r.reset()
		r.head = head
	case r.status == 204 || r.status == 304:
		r.stage = whole
	case r.chunked:
		r.stage, r.head = atChunk, 0
	case r.length > 0:
		r.stage, r.left = inBody, r.length
	case r.length == 0:
		r.stage = whole
	default:
		r.stage, r.closes = untilClose, true
	}
	return nil
}

// takeSize reads the line before a chunk: its size, and perhaps more about it.
func (r *response) takeSize(line []byte) error {
	if semicolon := bytes.IndexByte(line, ';'); semicolon >= 0 {
		line = line[:semicolon]
	}
	n, ok := number(blank(line), 16)
	switch {
	case !ok:
		return errNotHTTP
	case n == 0:
		r.stage, r.head = atTrailer, 0
	default:
		r.stage, r.left = inChunk, n
	}
	return nil
}

// number reads digits alone, of a number that an int64 has room for.
func number(text []byte, base int64) (n int64, ok bool) {
	const most = 15 // digits
	if len(text) == 0 || len(text) > most {
		return 0, false
	}
	for _, c := range text {
		d := int64(base)
		switch {
		case c >= '0' && c <= '9':
			d = int64(c - '0')
		case c >= 'a' && c <= 'f':
			d = int64(c-'a') + 10
		case c >= 'A' && c <= 'F':
			d = int64(c-'A') + 10
		}
		if d >= base {
			return 0, false
		}
		n = n*base + d
	}
	return n, true
}

// is compares with a word in lower case.
func is(text []byte, word string) bool {
	if len(text) != len(word) {
		return false
	}
	for i, c := range text {
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != word[i] {
			return false
		}
	}
	return true
}

func blank(text []byte) []byte { return bytes.Trim(text, " \t") }
