// Package yamldoctest tests what reads YAML by its files: broken ones in
// testdata/errors, and beside each the golden text of what is said about it.
package yamldoctest

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tare-bench/tare/internal/experiment/yamldoc"
)

var update = flag.Bool("update", false, "write the golden files")

// Errors reads each file testdata/errors/*.yaml. What is said about it has to
// be a *yamldoc.Error, and what the file *.stderr beside it says.
func Errors(t *testing.T, read func(name string, data []byte) error) {
	t.Helper()
	for _, file := range Files(t, "testdata/errors/*.yaml") {
		t.Run(filepath.Base(file), func(t *testing.T) {
			err := read(filepath.Base(file), Content(t, file))
			if _, ok := errors.AsType[*yamldoc.Error](err); !ok {
				t.Fatalf("the error is %v, a %T; want a *yamldoc.Error", err, err)
			}
			Golden(t, strings.TrimSuffix(file, ".yaml")+".stderr", []byte(err.Error()+"\n"))
		})
	}
}

// Golden compares got with a file, or writes it with -update.
func Golden(t *testing.T, file string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if want := Content(t, file); !bytes.Equal(want, got) {
		t.Errorf("%s differs (-want +got); run the test with -update if that is right:\n%s",
			file, cmp.Diff(string(want), string(got)))
	}
}

// Files lists the files of a pattern, of which there has to be one.
func Files(t testing.TB, pattern string) []string {
	t.Helper()
	names, err := filepath.Glob(pattern)
	if err != nil || len(names) == 0 {
		t.Fatalf("%s: %d files, error %v", pattern, len(names), err)
	}
	return names
}

// Content is what is in a file.
func Content(t testing.TB, file string) []byte {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
