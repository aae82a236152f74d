package netpath

import "testing"

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

func TestPrintable(t *testing.T) {
	for name, want := range map[string]string{"docker-proxy": "docker-proxy", "a b\x1b[2J\n": "a?b?[2J?", "é": "?"} {
		if got := printable(name); got != want {
			t.Errorf("printable(%q) = %q, want %q", name, got, want)
		}
	}
}

// The program is pasta, whatever the processor has.
func TestProgramOf(t *testing.T) {
	for name, want := range map[string]string{"pasta.avx2": "pasta", "pasta": "pasta", "docker-proxy": "docker-proxy", "a\x1bb.avx2": "a?b"} {
		if got := programOf(name); got != want {
			t.Errorf("programOf(%q) = %q, want %q", name, got, want)
		}
	}
}
