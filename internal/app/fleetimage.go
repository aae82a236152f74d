package app

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"github.com/tare-bench/tare/internal/image/program"
	"github.com/tare-bench/tare/internal/remote/peer"
)

// FleetImage makes the image that the pods of a fleet run: of this program, and of those for other architectures
// that lie beside it (see docs/two-machines.md).
func FleetImage(ctx context.Context) (*program.Image, error) {
	const running = "/proc/self/exe" // what runs, also if the file was replaced
	files := []string{running}
	own, err := os.Readlink(running)
	if err != nil {
		return nil, err
	}
	for _, arch := range []string{"amd64", "arm64"} {
		beside := filepath.Join(filepath.Dir(own), peer.ProgramName(arch))
		_, err := os.Stat(beside)
		switch {
		case arch == runtime.GOARCH, errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return nil, err
		default:
			files = append(files, beside)
		}
	}
	return program.New(ctx, files...)
}
