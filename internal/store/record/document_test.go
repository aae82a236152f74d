package record_test

import (
	"bytes"
	"encoding/json"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tare-bench/tare/internal/store/record"
)

// The document says what the lines say: each part is the same JSON.
func TestDocumentHoldsWhatTheLinesHold(t *testing.T) {
	run := example()
	var b bytes.Buffer
	if err := record.WriteDocument(&b, record.Events(run)); err != nil {
		t.Fatal(err)
	}
	var doc map[string]any
	if err := json.Unmarshal(b.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"tare": "run", "samples": []any{}, "resumptions": []any{}}
	d := json.NewDecoder(bytes.NewReader([]byte(encode(t, run))))
	for d.More() {
		var line map[string]any
		if err := d.Decode(&line); err != nil {
			t.Fatal(err)
		}
		switch {
		case line["sample"] != nil:
			want["samples"] = append(want["samples"].([]any), line["sample"])
		case line["resumed"] != nil:
			want["resumptions"] = append(want["resumptions"].([]any), line["resumed"])
		case line["end"] != nil:
			want["end"] = line["end"]
		default:
			want["version"] = line["version"]
			delete(line, "tare")
			delete(line, "version")
			delete(line, "crc32c")
			want["header"] = line
		}
	}
	if d := cmp.Diff(want, doc); d != "" {
		t.Errorf("(-lines +document):\n%s", d)
	}
}

func TestDocumentOfAnIncompleteRun(t *testing.T) {
	run := example()
	run.Samples, run.Resumptions, run.End = nil, nil, nil
	var b bytes.Buffer
	if err := record.WriteDocument(&b, record.Events(run)); err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Samples []any
		End     any
	}
	if err := json.Unmarshal(b.Bytes(), &doc); err != nil || doc.Samples == nil || doc.End != nil {
		t.Errorf("samples %v, end %v, error %v; want none, null and nil", doc.Samples, doc.End, err)
	}
}

func TestDocumentIsValidated(t *testing.T) {
	run := example()
	run.Samples[1].Trial.Seq = 7
	if err := record.WriteDocument(io.Discard, record.Events(run)); err == nil {
		t.Error("samples out of order are written")
	}
	run.Header.ID = ""
	if err := record.WriteDocument(io.Discard, record.Events(run)); err == nil {
		t.Error("a run without an ID is written")
	}
}
