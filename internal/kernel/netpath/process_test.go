package netpath

import (
	"os"
	"testing"
)

func TestDeviceIn(t *testing.T) {
	for text, want := range map[string]string{
		"":                           "",
		"pos:\t0\nflags:\t0100002\n": "",
		"pos:\t0\nflags:\t0104002\nmnt_id:\t26\nino:\t86\niff:\ttap0\n": "tap0",
	} {
		if got := deviceIn([]byte(text)); got != want {
			t.Errorf("deviceIn(%q) = %q, want %q", text, got, want)
		}
	}
}

// Anybody can name a process what he likes.
func TestNameIsHarmless(t *testing.T) {
	own := "/proc/self/comm"
	before, err := os.ReadFile(own)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.WriteFile(own, before, 0) }() // of this process alone
	for name, want := range map[string]string{
		"docker-proxy": "docker-proxy", "a b\x1b[2J\nc": `a b\x1b[2J\x0ac`, "\u202ea": `\u202ea`,
	} {
		if err := os.WriteFile(own, []byte(name), 0); err != nil {
			t.Fatal(err)
		}
		if got := nameOf(os.Getpid()); got != want {
			t.Errorf("nameOf %q = %q, want %q", name, got, want)
		}
	}
}

// The program is pasta, whatever the processor has.
func TestProgramOf(t *testing.T) {
	for name, want := range map[string]string{
		"pasta.avx2": "pasta", "pasta": "pasta", "docker-proxy": "docker-proxy", "a\x1bb.avx2": `a\x1bb`,
	} {
		if got := programOf(name); got != want {
			t.Errorf("programOf(%q) = %q, want %q", name, got, want)
		}
	}
}
