package record_test

import (
	"bytes"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/tare-bench/tare/internal/bench"
)

var update = flag.Bool("update", false, "rewrite the example in docs/format.md")

// The example in docs/format.md is what the encoder writes, byte for byte.
func TestFormatPageShowsTheTruth(t *testing.T) {
	const page, open, fence = "../../../docs/format.md", "```jsonl\n", "```\n"
	b, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(b), open)
	if !ok {
		t.Fatalf("%s has no ```jsonl block", page)
	}
	shown, after, _ := strings.Cut(rest, fence)
	want := encode(t, example())
	if shown == want {
		return
	}
	if !*update {
		t.Fatalf("the example in %s is not what is written (go test ./internal/store/record -update rewrites it):\n%s",
			page, diff(want, shown))
	}
	if err := os.WriteFile(page, []byte(before+open+want+fence+after), 0o644); err != nil {
		t.Fatal(err)
	}
}

// testdata/v1.jsonl was written when format 1 was new. It is never written
// again, and must read like this for ever.
func TestFirstFormatReadsForEver(t *testing.T) {
	b, err := os.ReadFile("testdata/v1.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	got, err := read(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	first, torn := example(), example()
	first.Samples[2].Series, first.Samples[2].Counted, first.Samples[2].Trace = nil, 0, nil // it had none
	for _, run := range []*bench.Run{first, torn} {
		run.Header.Name, run.Header.Remarks = "", nil // it had none
	}
	torn.Header.ID = "20261120-094500-q2x7"
	torn.Samples, torn.Resumptions, torn.End = torn.Samples[:2], nil, nil
	if d := diff([]*bench.Run{first, torn}, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}
