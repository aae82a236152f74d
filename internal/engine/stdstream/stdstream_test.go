package stdstream_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/tare-bench/tare/internal/engine/stdstream"
)

// frame is one frame of a stream.
func frame(stream byte, text string) string {
	return string(binary.BigEndian.AppendUint32([]byte{stream, 0, 0, 0}, uint32(len(text)))) + text
}

// However the bytes come, they are taken apart in the same way, and what is
// missing is an error.
func TestCopy(t *testing.T) {
	both := frame(1, "out") + frame(2, "err") + frame(1, "") + frame(1, "more")
	for name, test := range map[string]struct {
		stream, stdout, stderr string
		err                    error
	}{
		"none":            {"", "", "", nil},
		"two streams":     {both, "outmore", "err", nil},
		"cut in text":     {both[:len(both)-2], "outmo", "err", io.ErrUnexpectedEOF},
		"cut before text": {both[:len(both)-4], "out", "err", io.ErrUnexpectedEOF},
		"cut in header":   {both[:len(both)-5], "out", "err", io.ErrUnexpectedEOF},
		"stdin":           {frame(0, "in") + frame(1, "out"), "", "", stdstream.ErrFraming},
		"third stream":    {frame(2, "err") + frame(3, "x"), "", "err", stdstream.ErrFraming},
		"not framed":      {"HELLO, WORLD", "", "", stdstream.ErrFraming},
	} {
		for way, wrap := range map[string]func(io.Reader) io.Reader{
			"at once": func(r io.Reader) io.Reader { return r }, "by bytes": iotest.OneByteReader,
			"end with data": iotest.DataErrReader,
		} {
			t.Run(name+" "+way, func(t *testing.T) {
				var stdout, stderr bytes.Buffer
				r := strings.NewReader(test.stream)
				err := stdstream.Copy(&stdout, &stderr, wrap(r))
				if !errors.Is(err, test.err) || stdout.String() != test.stdout || stderr.String() != test.stderr {
					t.Errorf("Copy = %v, stdout %q, stderr %q; want %v, %q and %q",
						err, stdout.String(), stderr.String(), test.err, test.stdout, test.stderr)
				}
				if r.Len() > 0 {
					t.Errorf("%d bytes were not read", r.Len())
				}
			})
		}
	}
}

func TestCopyFromAReaderThatFails(t *testing.T) {
	reset := errors.New("connection reset")
	var stdout bytes.Buffer
	r := io.MultiReader(strings.NewReader(frame(1, "out")), iotest.ErrReader(reset))
	if err := stdstream.Copy(&stdout, nil, r); !errors.Is(err, reset) || stdout.String() != "out" {
		t.Errorf("Copy = %v, stdout %q; want the reader's error after %q", err, stdout.String(), "out")
	}
}

// A writer that fails is left alone, and the others get what is theirs.
func TestCopyToAWriterThatFails(t *testing.T) {
	var stderr bytes.Buffer
	full := &failing{}
	r := strings.NewReader(frame(1, "a") + frame(2, "b") + frame(1, "c") + frame(2, "d"))
	if err := stdstream.Copy(full, &stderr, r); err != nil || stderr.String() != "bd" || full.calls != 1 {
		t.Errorf("Copy = %v, stderr %q, %d calls of the writer that fails; want nil, %q and 1",
			err, stderr.String(), full.calls, "bd")
	}
}

type failing struct{ calls int }

func (f *failing) Write([]byte) (int, error) {
	f.calls++
	return 0, errors.New("no space left")
}

// The length that a frame claims is no reason to take memory.
func TestCopyTakesNoMemory(t *testing.T) {
	const size = 64 << 20
	header := frame(1, "")[:4] + "\x04\x00\x00\x00"
	r := io.MultiReader(strings.NewReader(header), io.LimitReader(zeros{}, size))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if err := stdstream.Copy(nil, nil, r); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 1<<20 {
		t.Errorf("%d bytes were allocated for a frame of 64 MiB", grown)
	}
}

// zeros is a reader of zeros without end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

func FuzzCopy(f *testing.F) {
	f.Add([]byte(frame(1, "out")+frame(2, "err")), 3)
	f.Add([]byte("HELLO, WORLD"), 9)
	f.Fuzz(func(t *testing.T, stream []byte, cut int) {
		var whole, parts bytes.Buffer
		cut = max(0, min(cut, len(stream)))
		errWhole := stdstream.Copy(&whole, &whole, bytes.NewReader(stream))
		errParts := stdstream.Copy(&parts, &parts,
			io.MultiReader(bytes.NewReader(stream[:cut]), bytes.NewReader(stream[cut:])))
		if (errWhole == nil) != (errParts == nil) || whole.String() != parts.String() {
			t.Errorf("whole: %q, %v; in two parts: %q, %v", whole.String(), errWhole, parts.String(), errParts)
		}
		if errWhole == nil && (len(stream)-whole.Len())%8 != 0 || whole.Len() > len(stream) {
			t.Errorf("%d bytes of text in %d bytes of stream, %v", whole.Len(), len(stream), errWhole)
		}
	})
}

// The output of a program that has ended is whole, though another process holds it still.
func TestRunHeldOutput(t *testing.T) {
	printed, err := stdstream.Run(t.Context(), 100, "sh", "-c", "echo version 1; sleep 3 & exit 0")
	if string(printed) != "version 1\n" || err != nil {
		t.Errorf("printed %q, error %v; want the version and no error", printed, err)
	}
	_, err = stdstream.Run(t.Context(), 100, "sh", "-c", "sleep 3 & exit 7")
	if status := new(exec.ExitError); !errors.As(err, &status) || status.ExitCode() != 7 {
		t.Errorf("error %v, want exit status 7", err)
	}
}
