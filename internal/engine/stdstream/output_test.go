package stdstream_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/tare-bench/tare/internal/engine/stdstream"
)

// Everybody who waits for the output learns how it has ended; one that was closed has
// ended well.
func TestOutput(t *testing.T) {
	for name, test := range map[string]struct {
		stream string
		err    error
	}{
		"whole": {frame(1, "out"), nil},
		"cut":   {frame(1, "out")[:9], io.ErrUnexpectedEOF},
	} {
		var o stdstream.Output
		o.Follow(nil, nil, strings.NewReader(test.stream), func() {})
		for range 2 {
			if err := o.Drain(t.Context()); !errors.Is(err, test.err) {
				t.Errorf("%s: %v, want %v", name, err, test.err)
			}
		}
	}
	client, server := net.Pipe()
	defer func() { _ = server.Close() }() // nothing is written
	var o stdstream.Output
	closed := 0
	o.Follow(nil, nil, closedAs{client}, func() { closed++; _ = client.Close() }) // as above
	ended, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	cancel(why)
	if err := o.Drain(ended); !errors.Is(err, why) {
		t.Errorf("waiting no longer: %v, want the cause", err)
	}
	o.Close()
	o.Close()
	if err := o.Drain(t.Context()); err != nil || closed != 1 {
		t.Errorf("closed %d times: %v", closed, err)
	}
	var none stdstream.Output
	none.Close()
	if err := none.Drain(t.Context()); err != nil {
		t.Errorf("nobody is attached: %v", err)
	}
}

// A closedAs tells of its end as a network connection does.
type closedAs struct{ net.Conn }

func (c closedAs) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if errors.Is(err, io.ErrClosedPipe) {
		err = net.ErrClosed
	}
	return n, err
}
