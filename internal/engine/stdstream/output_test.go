package stdstream_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
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

// What the stream of a container that has ended did not bring comes from its log, and nothing comes twice.
func TestDrainOr(t *testing.T) {
	broken := frame(2, "Error: lost\n")
	log := frame(1, "one\n") + frame(2, "two\n") + frame(1, "three\n")
	for name, test := range map[string]struct {
		stream, log    string
		file           bool
		stdout, stderr string
		err            string
	}{
		"all came":        {stream: log, log: frame(1, "x"), file: true, stdout: "one\nthree\n", stderr: "two\n"},
		"nothing came":    {log: log, file: true, stdout: "one\nthree\n", stderr: "two\n"},
		"nothing printed": {log: log},
		"lost all":        {stream: broken, log: log, stdout: "one\nthree\n", stderr: "two\n"},
		"lost a part":     {stream: frame(1, "on") + broken, log: log, file: true, stdout: "one\nthree\n", stderr: "two\n"},
		"lost no log":     {stream: frame(1, "on") + broken, stdout: "on", err: "no log"},
		"printed the same": {
			stream: frame(1, "one\n") + broken + frame(1, "three\n"),
			log:    frame(1, "one\n") + broken + frame(1, "three\n"), stdout: "one\nthree\n", stderr: "Error: lost\n",
		},
		"cut": {stream: frame(2, "err")[:9], log: log, file: true, stderr: "e", err: io.ErrUnexpectedEOF.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			var stdout, stderr strings.Builder
			o := stdstream.Output{Broken: func(text []byte) bool { return string(text) == "Error: lost\n" }}
			o.Follow(&stdout, &stderr, strings.NewReader(test.stream), func() {})
			file := filepath.Join(t.TempDir(), "log")
			if test.file {
				if err := os.WriteFile(file, []byte("as the engine writes it"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			for range 2 {
				err := o.DrainOr(t.Context(), file, func(context.Context) (io.ReadCloser, error) {
					if test.log == "" {
						return nil, errors.New("no log")
					}
					return io.NopCloser(strings.NewReader(test.log)), nil
				})
				if (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
					t.Errorf("%v, want %q", err, test.err)
				}
			}
			if stdout.String() != test.stdout || stderr.String() != test.stderr {
				t.Errorf("stdout %q, stderr %q", stdout.String(), stderr.String())
			}
		})
	}
}
