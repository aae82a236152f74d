package program_test

import (
	"bytes"
	"context"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/image"
	"github.com/tare-bench/tare/internal/image/program"
)

// staticProgram is a program without libraries: the agent. With the race detector the test itself has some.
func staticProgram(t *testing.T) string {
	t.Helper()
	text, err := image.AgentBinary()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(file, text, 0o700); err != nil {
		t.Fatal(err)
	}
	return file
}

func newImage(t *testing.T) *program.Image {
	t.Helper()
	i, err := program.New(t.Context(), staticProgram(t))
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// The archive is one that tare itself reads, with the program in it; twice the same.
func TestWrite(t *testing.T) {
	var b, again bytes.Buffer
	if err := newImage(t).Write(&b, "example.com/tare:1"); err != nil {
		t.Fatal(err)
	}
	if err := newImage(t).Write(&again, "example.com/tare:1"); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(b.Bytes(), again.Bytes()) {
		t.Error("the same program gives two different archives")
	}
	file := filepath.Join(t.TempDir(), "tare.tar")
	if err := os.WriteFile(file, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	img, err := image.NewLibrary(t.TempDir()).Resolve(context.Background(), "tar:"+file)
	if err != nil {
		t.Fatal(err)
	}
	if argv, err := img.Argv(bench.Spec{}); err != nil || !slices.Equal(argv, []string{program.Path}) {
		t.Errorf("the image runs %q, %v; want %s", argv, err, program.Path)
	}
}

// What was pushed is what the returned reference means.
func TestPush(t *testing.T) {
	s := httptest.NewServer(registry.New())
	defer s.Close()
	ref := strings.TrimPrefix(s.URL, "http://") + "/tare:1"
	i := newImage(t)
	pinned, err := i.Push(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	named, err := name.ParseReference(pinned)
	if err != nil {
		t.Fatal(err)
	}
	got, err := remote.Index(named)
	if err != nil {
		t.Fatal(err)
	}
	m, err := got.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Manifests) != 1 || m.Manifests[0].Platform.Architecture != i.Architectures[0] {
		t.Errorf("the index has %+v, want one image for %s", m.Manifests, i.Architectures)
	}
}

// What is no program of tare's is refused, by its name.
func TestRefused(t *testing.T) {
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, files := range [][]string{{text}, {filepath.Join(t.TempDir(), "none")}, {staticProgram(t), staticProgram(t)}} {
		_, err := program.New(t.Context(), files...)
		if err == nil || !strings.Contains(err.Error(), files[len(files)-1]) {
			t.Errorf("New(%q): error %v, want one that names the file", files, err)
		}
	}
}
