package agent_test

import (
	"fmt"
	"io"
	"net"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// A service says where it listens, answers each request, and ends when it is told.
func TestServe(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	port := fmt.Sprint(l.Addr().(*net.TCPAddr).Port)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(binary, "probe", port).CombinedOutput(); err == nil ||
		!strings.Contains(string(out), "connection refused") {
		t.Errorf("probe of a port at which nobody listens: %q, %v", out, err)
	}
	p := start(t, "serve", port, "1ms")
	p.expect(t, "listening on port "+port)
	if out, err := exec.Command(binary, "probe", port).CombinedOutput(); err != nil {
		t.Errorf("probe: %q, %v", out, err)
	}
	for request, want := range map[string]string{
		"GET / HTTP/1.1\r\nHost: x\r\n\r\n":      "HTTP/1.1 200 OK",
		"GET /no HTTP/1.1\r\n\r\n":               "HTTP/1.1 404 Not Found",
		"POST / HTTP/1.1\r\n\r\n":                "HTTP/1.1 404 Not Found",
		strings.Repeat("x", 10_000) + "\r\n\r\n": "",
	} {
		if got := say(t, address, request); !strings.HasPrefix(got, want) || want == "" && got != "" {
			t.Errorf("%.20q is answered with %q, want %q", request, got, want)
		}
	}
	if out, err := exec.Command(binary, "serve", port).CombinedOutput(); err == nil ||
		!strings.Contains(string(out), "address already in use") {
		t.Errorf("serve on a port that is taken: %q, %v", out, err)
	}
	p.signal(t, syscall.SIGTERM)
	if status := p.exitStatus(t); status != 0 {
		t.Errorf("exit status %d after SIGTERM, want 0", status)
	}
}

// say sends a request and returns all that comes back.
func say(t *testing.T, address, request string) string {
	t.Helper()
	c, err := net.Dial("tcp4", address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()  // everything has been said
	_, _ = io.WriteString(c, request) // it may not want to hear all of it
	answer, _ := io.ReadAll(c)        // nor say anything
	return string(answer)
}
