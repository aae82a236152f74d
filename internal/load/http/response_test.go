package http

import (
	"errors"
	"strings"
	"testing"
)

// read feeds an answer in pieces of a size, and then the end of the connection.
func read(text string, piece int) (r response, rest string, err error) {
	r = newResponse()
	for len(text) > 0 && r.state != complete {
		n := min(piece, len(text))
		used, err := r.feed([]byte(text[:n]))
		text = text[used:]
		if err != nil {
			return r, text, err
		}
	}
	if r.state != complete {
		err = r.end()
	}
	return r, text, err
}

func TestResponse(t *testing.T) {
	for name, test := range map[string]struct {
		text   string
		status int
		body   int64
		closes bool
		rest   string
	}{
		"a length":      {"HTTP/1.1 200 OK\r\nServer: x\r\nContent-Length: 5\r\n\r\nhello", 200, 5, false, ""},
		"lines of Unix": {"HTTP/1.1 200 OK\ncontent-length: 5\n\nhello", 200, 5, false, ""},
		"no body":       {"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 200, 0, false, ""},
		"no content":    {"HTTP/1.1 204 No Content\r\n\r\n", 204, 0, false, ""},
		"not modified":  {"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", 304, 0, false, ""},
		"no reason":     {"HTTP/1.1 404\r\nContent-Length: 2\r\n\r\nno", 404, 2, false, ""},
		"chunks": {"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n5\r\nhello\r\n1A;a=b\r\n" +
			strings.Repeat("x", 26) + "\r\n0\r\n\r\n", 200, 31, false, ""},
		"chunks and trailer":  {"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nA: b\r\n\r\n", 200, 1, false, ""},
		"closes":              {"HTTP/1.1 200 OK\r\nConnection: foo, Close\r\nContent-Length: 1\r\n\r\nx", 200, 1, true, ""},
		"old":                 {"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx", 200, 1, true, ""},
		"old, kept":           {"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\nx", 200, 1, false, ""},
		"until it closes":     {"HTTP/1.1 200 OK\r\n\r\nall of it", 200, 9, true, ""},
		"hints before it":     {"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx", 200, 1, false, ""},
		"a line that goes on": {"HTTP/1.1 200 OK\r\nA: b\r\n c\r\nContent-Length: 1\r\n\r\nx", 200, 1, false, ""},
		"the same twice":      {"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx", 200, 1, false, ""},
		"more behind it":      {"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nxyz", 200, 1, false, "yz"},
	} {
		for _, piece := range []int{1, 2, 7, 1 << 20} {
			r, rest, err := read(test.text, piece)
			if err != nil || r.state != complete || r.status != test.status || r.body != test.body || r.closes != test.closes ||
				rest != test.rest {
				t.Errorf("%s in pieces of %d: status %d, body %d, closes %v, rest %q, stage %d: %v",
					name, piece, r.status, r.body, r.closes, rest, r.state, err)
			}
		}
	}
}

func TestBadResponse(t *testing.T) {
	long := strings.Repeat("x", maxLine+1)
	for name, test := range map[string]struct {
		text string
		want error
	}{
		"nothing":                 {"", errEarly},
		"garbage":                 {"\x00\xff\x16\x03\n", errNotHTTP},
		"another protocol":        {"SSH-2.0-OpenSSH\r\n", errNotHTTP},
		"another version":         {"HTTP/2.0 200 OK\r\n", errNotHTTP},
		"a version like it":       {"HTTP/1.9 200 OK\r\n", errNotHTTP},
		"no status":               {"HTTP/1.1 \r\n", errNotHTTP},
		"a short status":          {"HTTP/1.1 20 OK\r\n", errNotHTTP},
		"a long status":           {"HTTP/1.1 2000\r\n", errNotHTTP},
		"a status of letters":     {"HTTP/1.1 abc OK\r\n", errNotHTTP},
		"status 000":              {"HTTP/1.1 000 OK\r\n", errNotHTTP},
		"no colon":                {"HTTP/1.1 200 OK\r\nhello\r\n", errNotHTTP},
		"a negative length":       {"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n", errNotHTTP},
		"a length of letters":     {"HTTP/1.1 200 OK\r\nContent-Length: a\r\n", errNotHTTP},
		"two lengths":             {"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n", errNotHTTP},
		"a length beyond numbers": {"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n", errNotHTTP},
		"compressed":              {"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n", errNotHTTP},
		"switched":                {"HTTP/1.1 101 Switching Protocols\r\n\r\n", errNotHTTP},
		"a chunk without size":    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n", errNotHTTP},
		"a chunk that is longer":  {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nxy\r\n", errNotHTTP},
		"cut off in the status":   {"HTTP/1.1 2", errEarly},
		"cut off in the head":     {"HTTP/1.1 200 OK\r\nContent-", errEarly},
		"cut off in the body":     {"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello", errEarly},
		"cut off in a chunk":      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nhello", errEarly},
		"cut off before trailers": {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", errEarly},
		"an endless line":         {long, errEndless},
		"an endless name":         {"HTTP/1.1 200 OK\r\n" + long, errEndless},
		"an endless head":         {"HTTP/1.1 200 OK\r\n" + strings.Repeat("A: b\r\n", maxHead), errEndless},
		"endless hints":           {strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", maxHead/20), errEndless},
		"an endless trailer":      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n" + strings.Repeat("A: b\r\n", maxHead), errEndless},
	} {
		for _, piece := range []int{1, 1000, 1 << 20} {
			if r, _, err := read(test.text, piece); !errors.Is(err, test.want) {
				t.Errorf("%s in pieces of %d: %v, want %v; %+v", name, piece, err, test.want, r.state)
			}
		}
	}
}

// An answer is the same in whatever pieces it comes, and no text makes it larger
// than it is.
func FuzzResponse(f *testing.F) {
	f.Add("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", 3)
	f.Add("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", 1)
	f.Add("HTTP/1.0 100 x\r\n\r\nHTTP/1.1 200 OK\r\nConnection: close\r\n\r\n", 8)
	f.Fuzz(func(t *testing.T, text string, piece int) {
		at, rest, err := read(text, max(1, piece))
		once, restOnce, errOnce := read(text, max(1, len(text)))
		if !errors.Is(err, errOnce) ||
			err == nil && (rest != restOnce || at.body != once.body || at.status != once.status || at.closes != once.closes) {
			t.Errorf("in pieces: %+v, %q, %v; at once: %+v, %q, %v", at, rest, err, once, restOnce, errOnce)
		}
		if int(at.body)+len(rest) > len(text) {
			t.Errorf("a body of %d bytes and %d behind it in %d", at.body, len(rest), len(text))
		}
	})
}

// Nothing is allocated for an answer.
func TestResponseAllocatesNothing(t *testing.T) {
	text := []byte("HTTP/1.1 200 OK\r\nServer: nginx\r\nContent-Length: 5\r\nConnection: keep-alive\r\n\r\nhello")
	r := newResponse()
	n := testing.AllocsPerRun(100, func() {
		r.reset()
		_, err1 := r.feed(text[:20])
		_, err2 := r.feed(text[20:])
		if err1 != nil || err2 != nil || r.state != complete {
			t.Error(err1, err2)
		}
	})
	if n != 0 {
		t.Errorf("%v allocations for an answer", n)
	}
}
