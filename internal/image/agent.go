package image

import (
	"archive/tar"
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"runtime"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/tare-bench/tare/internal/agent"
)

// The directory always holds a README, so that this compiles before the agent
// was built.
//
//go:embed agentbin
var agentFiles embed.FS

// AgentBinary returns the agent for this machine's architecture that was
// embedded when tare was built.
func AgentBinary() ([]byte, error) {
	name := "tare-agent-linux-" + runtime.GOARCH
	b, err := agentFiles.ReadFile(path.Join("agentbin", name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("this binary was built without %s inside: build it with 'make build'", name)
	}
	return b, err
}

// openAgent makes the image of the agent. The same binary gives the same
// digest on every machine: nothing in it comes from here or now.
func (l *Library) openAgent() (*Image, error) {
	binary, err := l.agent()
	if err != nil {
		return nil, err
	}
	files, err := agentLayer(binary)
	if err != nil {
		return nil, err
	}
	id, size, err := v1.SHA256(bytes.NewReader(files))
	if err != nil {
		return nil, err
	}
	raw, err := json.Marshal(agentConfig(id))
	if err != nil {
		return nil, err
	}
	const name = "layer.tar"
	return newImage(memory{name: files}, raw, []layer{{file: name, size: size}})
}

func agentConfig(layer v1.Hash) v1.ConfigFile {
	return v1.ConfigFile{
		OS:           "linux",
		Architecture: runtime.GOARCH,
		Created:      v1.Time{Time: time.Unix(0, 0).UTC()},
		Config: v1.Config{
			Entrypoint: []string{agent.Path},
			Cmd:        []string{"mark"},
			Env:        []string{"PATH=/"},
			WorkingDir: "/",
		},
		RootFS:  v1.RootFS{Type: "layers", DiffIDs: []v1.Hash{layer}},
		History: []v1.History{{Created: v1.Time{Time: time.Unix(0, 0).UTC()}, CreatedBy: "tare"}},
	}
}

// agentLayer packs the agent and what programs and engines expect around it.
func agentLayer(binary []byte) ([]byte, error) {
	var buf bytes.Buffer
	tw := tar.NewWriter(&buf)
	for _, f := range []struct {
		name string
		mode int64
		data string
	}{
		{"dev/", 0o755, ""},
		{"etc/", 0o755, ""},
		{"etc/group", 0o644, "root:x:0:\nnogroup:x:65534:\n"},
		{"etc/passwd", 0o644, "root:x:0:0:root:/:/sbin/nologin\nnobody:x:65534:65534:nobody:/:/sbin/nologin\n"},
		{"proc/", 0o755, ""},
		{"sys/", 0o755, ""},
		{strings.TrimPrefix(agent.Path, "/"), 0o755, string(binary)},
		{"tmp/", 0o1777, ""},
	} {
		h := &tar.Header{
			Typeflag: tar.TypeReg, Name: f.name, Mode: f.mode, Size: int64(len(f.data)),
			ModTime: time.Unix(0, 0), Format: tar.FormatUSTAR,
		}
		if strings.HasSuffix(f.name, "/") {
			h.Typeflag = tar.TypeDir
		}
		if err := tw.WriteHeader(h); err != nil {
			return nil, fmt.Errorf("pack %s: %w", f.name, err)
		}
		if _, err := tw.Write([]byte(f.data)); err != nil {
			return nil, fmt.Errorf("pack %s: %w", f.name, err)
		}
	}
	if err := tw.Close(); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}
