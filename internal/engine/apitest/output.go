package apitest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/engine/enginetest"
)

// Output tests that received output is passed on, and that Wait returns an error if output is
// missing. exited is the answer to the wait for a container that ended with status 0.
func Output[E Engine](t *testing.T, open Open[E], exited http.HandlerFunc) {
	const frames = "\x01\x00\x00\x00\x00\x00\x00\x03out\x02\x00\x00\x00\x00\x00\x00\x03err"
	for name, test := range map[string]struct {
		stream, stdout, stderr string
		ok                     bool
	}{
		"two streams":  {frames, "out", "err", true},
		"none":         {"", "", "", true},
		"cut in text":  {frames[:len(frames)-1], "out", "er", false},
		"cut in frame": {frames[:len(frames)-5], "out", "", false},
		"not framed":   {"HELLO, WORLD", "", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			e, _ := open(t, Answers{
				"POST /containers/c1/attach": Stream(test.stream),
				"POST /containers/c1/start":  Reply(204, ""),
				"POST /containers/c1/wait":   exited,
			})
			c := Created(t, e)
			enginetest.Printed(t, c, test.stdout, test.stderr, test.ok)
		})
	}
}

// OutputOfLog checks that output which the stream lacks is taken from the log, whose file is at
// path below root, and that nobody asks for a log that is empty. The answers are those about root.
func OutputOfLog[E Engine](t *testing.T, open Open[E], path string, answers func(root string) Answers) {
	for logged, want := range map[string]string{"the form does not matter": "1\n", "": ""} {
		root := t.TempDir()
		file := filepath.Join(root, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(logged), 0o600)); err != nil {
			t.Fatal(err)
		}
		all := answers(root)
		all["POST /containers/c1/attach"] = Stream("")
		all["POST /containers/c1/start"] = Reply(204, "")
		all["GET /containers/c1/json"] = Reply(200, `{"Config":{}}`)
		all["GET /containers/c1/logs"] = Reply(200, "\x01\x00\x00\x00\x00\x00\x00\x021\n")
		e, s := open(t, all)

		if err := Probe(t.Context(), e); err != nil {
			t.Fatal(err)
		}
		c := Created(t, e)
		var out bytes.Buffer
		if err := errors.Join(c.Attach(t.Context(), &out, nil), c.Start(t.Context())); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Wait(t.Context()); err != nil || out.String() != want {
			t.Errorf("Wait = %v, output %q; want %q of the log %q", err, out.String(), want, logged)
		}
		if asked := s.HasCall("GET /containers/c1/logs"); asked != (logged != "") {
			t.Errorf("the log %q was asked for: %v", logged, asked)
		}
	}
}

// LateCreate tests that a container that was made after the end of Create's context is removed.
func LateCreate[E Engine](t *testing.T, open Open[E]) {
	ctx, cancel := context.WithCancel(t.Context())
	e, s := open(t, Answers{"POST /containers/create": func(w http.ResponseWriter, r *http.Request) {
		cancel()
		Reply(201, `{"Id":"late"}`)(w, r)
	}})
	if _, err := e.Create(ctx, bench.Spec{Image: "own"}); !errors.Is(err, context.Canceled) {
		t.Errorf("Create = %v, want context.Canceled", err)
	}
	if !s.HasCall("DELETE /containers/tare-run-1-" + e.Name() + "-") {
		t.Errorf("the container was not removed; calls: %q", s.Calls())
	}
}

// ForeignID tests that nothing is done to a container that this run did not make, if a server's
// answer to create has that one's ID. inspection is what the server says of it: JSON in which %q is
// the run of its label.
func ForeignID[E Engine](t *testing.T, open Open[E], inspection string) {
	for _, run := range []string{"run-2", "", "run-1"} {
		e, s := open(t, Answers{
			"POST /containers/create":     Reply(201, `{"Id":"other"}`),
			"GET /containers/other/json":  Reply(200, fmt.Sprintf(inspection, run)),
			"DELETE /containers/other":    Reply(204, ""),
			"POST /containers/other/kill": Reply(204, ""),
		})
		c := Created(t, e)
		if _, err := c.Inspect(t.Context()); errors.Is(err, bench.ErrMismatch) != (run != "run-1") {
			t.Errorf("Inspect of a container of run %q: %v", run, err)
		}
		first := c.Remove(t.Context())
		if run == "run-1" {
			if first != nil || !s.HasCall("DELETE /containers/other") {
				t.Errorf("Remove of the run's own container: %v; calls %q", first, s.Calls())
			}
			continue
		}
		if err := c.Remove(t.Context()); err != nil {
			t.Errorf("Remove, the second time: %v", err)
		}
		if s.HasCall("DELETE /containers/other") || s.HasCall("POST /containers/other") {
			t.Errorf("a container of run %q is touched: %q", run, s.Calls())
		}
	}
	e, s := open(t, Answers{"POST /containers/create": Reply(201, `{"Id":"other"}`)})
	if _, err := e.Create(t.Context(), bench.Spec{Image: "own", Storage: "layer"}); err == nil {
		t.Error("the server has no such container, and its data directory is there")
	}
	for _, method := range []string{"PUT", "DELETE", "POST"} {
		if s.HasCall(method + " /containers/other") {
			t.Errorf("a container that may be another's is touched: %q", s.Calls())
		}
	}
}
