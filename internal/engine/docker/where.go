package docker

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// hostAddress is the engine's address by the rules of the docker command: DOCKER_HOST, then the context
// that DOCKER_CONTEXT or the configuration names, then the usual socket. If the usual socket cannot
// be used, it is the socket of the user's rootless engine. If it is empty, the client library
// decides: DOCKER_HOST, or the usual socket.
func hostAddress() (string, error) {
	if os.Getenv("DOCKER_HOST") != "" {
		return "", nil
	}
	dir := os.Getenv("DOCKER_CONFIG")
	if home, err := os.UserHomeDir(); dir == "" && err == nil {
		dir = filepath.Join(home, ".docker")
	}
	if name := contextName(dir); dir != "" && name != "" && name != "default" {
		return endpoint(dir, name)
	}
	own := filepath.Join(os.Getenv("XDG_RUNTIME_DIR"), "docker.sock")
	if filepath.IsAbs(own) && unix.Access("/var/run/docker.sock", unix.W_OK) != nil && unix.Access(own, unix.W_OK) == nil {
		return "unix://" + own, nil
	}
	return "", nil
}

// contextName is the context in use. If the configuration cannot be read, there is none, as for the
// docker command.
func contextName(dir string) string {
	if name := os.Getenv("DOCKER_CONTEXT"); name != "" {
		return name
	}
	var config struct {
		CurrentContext string `json:"currentContext"`
	}
	text, err := os.ReadFile(filepath.Join(dir, "config.json"))
	if err != nil || json.Unmarshal(text, &config) != nil {
		return ""
	}
	return config.CurrentContext
}

// endpoint is the address of a context. The docker command keeps each context in a directory that
// is named by the digest of the context's name.
func endpoint(dir, name string) (string, error) {
	fail := func(err error) error {
		return fmt.Errorf("docker context %.80q: %w: choose another with DOCKER_CONTEXT, or name the engine with "+
			"host=unix:///PATH", name, err)
	}
	sum := sha256.Sum256([]byte(name))
	var meta struct {
		Endpoints map[string]struct{ Host string }
	}
	text, err := os.ReadFile(filepath.Join(dir, "contexts", "meta", hex.EncodeToString(sum[:]), "meta.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return "", fail(fmt.Errorf("it does not exist in %s", dir))
	}
	if err == nil {
		err = json.Unmarshal(text, &meta)
	}
	if err != nil {
		return "", fail(err)
	}
	host := meta.Endpoints["docker"].Host
	at, err := url.Parse(host)
	if err != nil || at.Scheme != "unix" && at.Scheme != "tcp" {
		return "", fail(fmt.Errorf("tare cannot use an engine at %.200q", strings.ToValidUTF8(host, "?")))
	}
	if _, err := os.Stat(filepath.Join(dir, "contexts", "tls", hex.EncodeToString(sum[:]))); err == nil {
		return "", fail(errors.New("tare does not support the TLS keys of a context: set DOCKER_HOST and " +
			"DOCKER_CERT_PATH"))
	}
	return host, nil
}
