package http

import (
	"bytes"
	"errors"
)

// The bounds of an answer, without its body.
const (
	maxLine = 8 << 10  // one line
	maxHead = 64 << 10 // all lines before a body, or after it
)

var (
	errNotHTTP = errors.New("the answer is not HTTP/1.1")
	errEndless = errors.New("the head of the answer is too long")
	errEarly   = errors.New("the server closed before the answer was complete")
)

// parseState says which part of an answer comes next.
type parseState int

const (
	atStatus parseState = iota
	atHeader
	inBody     // of known length
	untilClose // a body that ends with the connection
	atChunk    // the line with its size
	inChunk
	afterChunk // the end of its line
	atTrailer
	complete
)

// A response parses one answer in pieces of any size. It keeps only the beginning of an
// unfinished line, and the length of the body. reset makes it ready for the next answer.
type response struct {
	state   parseState
	line    []byte // the beginning of an unfinished line
	head    int    // bytes of the head, chunk line or trailer so far
	status  int
	length  int64 // of the body, as the head says; -1 = the head does not say
	left    int64 // bytes of the body, or of the chunk, that have not come
	body    int64 // bytes of the body that have come
	chunked bool
	closes  bool // the server closes the connection afterwards
}

func newResponse() response { return response{line: make([]byte, 0, maxLine), length: -1} }

func (r *response) reset() { *r = response{line: r.line[:0], length: -1} }

// feed parses p up to the end of the answer, and returns how many bytes it used.
func (r *response) feed(p []byte) (used int, err error) {
	for used < len(p) && r.state != complete && err == nil {
		switch r.state {
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
	case r.state == inChunk:
		r.state = afterChunk
	default:
		r.state = complete
	}
}

// end handles the end of the connection.
func (r *response) end() error {
	if r.state != untilClose {
		return errEarly
	}
	r.state = complete
	return nil
}

// lines parses one line, or keeps the beginning of one.
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

// take parses one line.
func (r *response) take(line []byte) error {
	switch r.state {
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
		r.state, r.head = atChunk, 0
	case atTrailer:
		if len(line) == 0 {
			r.state = complete
		}
	}
	return nil
}

// takeStatus parses "HTTP/1.1 200 OK".
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
	r.status, r.state = int(status), atHeader
	return nil
}

// takeHeader parses a line of the head, and skips lines that it does not need.
func (r *response) takeHeader(line []byte) error {
	if line[0] == ' ' || line[0] == '\t' {
		return nil // continues the line before
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
				return errNotHTTP // the client accepts no other encoding
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

// headEnds sets the stage after the head.
func (r *response) headEnds() error {
	switch {
	case r.status == 101:
		return errNotHTTP // the client did not ask for another protocol
	case r.status < 200: // the real answer comes next
		head := r.head
		r.reset()
		r.head = head
	case r.status == 204 || r.status == 304:
		r.state = complete
	case r.chunked:
		r.state, r.head = atChunk, 0
	case r.length > 0:
		r.state, r.left = inBody, r.length
	case r.length == 0:
		r.state = complete
	default:
		r.state, r.closes = untilClose, true
	}
	return nil
}

// takeSize parses the line before a chunk: its size, and perhaps extensions.
func (r *response) takeSize(line []byte) error {
	if semicolon := bytes.IndexByte(line, ';'); semicolon >= 0 {
		line = line[:semicolon]
	}
	n, ok := number(blank(line), 16)
	switch {
	case !ok:
		return errNotHTTP
	case n == 0:
		r.state, r.head = atTrailer, 0
	default:
		r.state, r.left = inChunk, n
	}
	return nil
}

// number parses a number that consists only of digits and fits into an int64.
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

// is compares a text with a lower-case word, ignoring case.
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
