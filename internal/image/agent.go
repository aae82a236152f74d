package image

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/tare-bench/tare/internal/agent"
	"github.com/tare-bench/tare/internal/image/pack"
)

// AgentBinary returns the agent for this machine's architecture that was
// embedded when tare was built.
func AgentBinary() ([]byte, error) {
	b, err := agentFiles.ReadFile(path.Join("agentbin", runtime.GOARCH, "tare-agent"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("this binary of tare has no agent for %s: build tare with 'make build'", runtime.GOARCH)
	}
	return b, err
}

// openAgent makes the image of the agent. The same binary gives the same digest on every machine,
// because nothing in the image depends on the machine or the time.
func (l *Library) openAgent(ctx context.Context) (*Image, error) {
	binary, err := l.agent()
	if err != nil {
		return nil, err
	}
	files, err := agentLayer(ctx, binary)
	if err != nil {
		return nil, err
	}
	id, size, err := v1.SHA256(bytes.NewReader(files))
	if err != nil {
		return nil, err
	}
	raw, err := json.Marshal(configOf(v1.Config{
		Entrypoint: []string{agent.Path},
		Cmd:        []string{"mark"},
		Env:        []string{"PATH=/"},
		WorkingDir: "/",
	}, id))
	if err != nil {
		return nil, err
	}
	const name = "layer.tar"
	return newImage(memory{name: files}, raw, []layer{{file: name, size: size}})
}

// configOf describes an image of one layer that is made here.
func configOf(process v1.Config, layer v1.Hash) v1.ConfigFile {
	return v1.ConfigFile{
		OS:           "linux",
		Architecture: runtime.GOARCH,
		Created:      v1.Time{Time: time.Unix(0, 0).UTC()},
		Config:       process,
		RootFS:       v1.RootFS{Type: "layers", DiffIDs: []v1.Hash{layer}},
		History:      []v1.History{{Created: v1.Time{Time: time.Unix(0, 0).UTC()}, CreatedBy: "tare"}},
	}
}

// agentLayer packs the agent and the files that programs and engines expect.
func agentLayer(ctx context.Context, binary []byte) ([]byte, error) {
	program := pack.Entry{Path: agent.Path, Mode: 0o755, Size: int64(len(binary)), Data: binary}
	entries := append(pack.Base(), program)
	slices.SortFunc(entries, func(a, b pack.Entry) int { return strings.Compare(a.Path, b.Path) })
	var buf bytes.Buffer
	err := pack.WriteLayer(ctx, &buf, entries)
	return buf.Bytes(), err
}

// WriteAgent writes the agent into dir as a program that every user may execute, and returns its
// path. IsAgent is true for it.
func (l *Library) WriteAgent(dir string) (file string, err error) {
	binary, err := l.agent()
	if err != nil {
		return "", err
	}
	file = filepath.Join(dir, path.Base(agent.Path))
	if err := os.WriteFile(file, binary, 0o700); err != nil {
		return "", err
	}
	return file, os.Chmod(file, 0o755) // whatever the umask
}

// IsAgent reports whether the content of a file is the agent.
func (l *Library) IsAgent(file string) (bool, error) {
	binary, err := l.agent()
	if err != nil {
		return false, err
	}
	info, err := os.Stat(file)
	if err != nil || !info.Mode().IsRegular() || info.Size() != int64(len(binary)) {
		return false, err
	}
	content, err := os.ReadFile(file)
	return bytes.Equal(content, binary), err
}
