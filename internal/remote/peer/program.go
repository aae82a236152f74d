package peer

import (
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// architectures are those for which tare can be built, in Go's words, with their ELF machines.
func architectures() map[string]elf.Machine {
	return map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}
}

// goArch is what Go calls an architecture that uname calls hardware.
func goArch(hardware string) string {
	switch hardware {
	case "x86_64":
		return "amd64"
	case "aarch64":
		return "arm64"
	default:
		return hardware
	}
}

// ProgramName is the name of the file with the program for another architecture, which lies beside this program.
func ProgramName(arch string) string { return "tare-linux-" + arch }

// ownProgram returns the file of the program for an architecture: the running one, or a file beside
// it. The error wraps fs.ErrNotExist if there is none.
func ownProgram(arch string) (string, error) {
	const running = "/proc/self/exe" // what runs, also if the file was replaced
	if arch == runtime.GOARCH {
		return running, nil
	}
	own, err := os.Readlink(running)
	if err != nil {
		return "", err
	}
	path := filepath.Join(filepath.Dir(own), ProgramName(arch))
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }() // it was only read
	f, err := elf.NewFile(file)
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	if f.Machine != architectures()[arch] {
		return "", fmt.Errorf("%s is a program for %v, not for %s", path, f.Machine, arch)
	}
	return path, nil
}

// programs are the programs that can be sent, by architecture.
type programs map[string]program

type program struct {
	file   *os.File
	size   int64
	sha256 string // in hexadecimal digits
	err    error  // why it cannot be sent; there is no file then
}

// openPrograms opens every program that there is. One that is damaged is an error only for the machines that need it.
func openPrograms(find func(arch string) (string, error)) programs {
	all := programs{}
	for arch := range architectures() {
		path, err := find(arch)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		var p program
		if err == nil {
			p, err = openProgram(path)
		}
		p.err = err
		all[arch] = p
	}
	return all
}

func openProgram(path string) (program, error) {
	f, err := os.Open(path)
	if err != nil {
		return program{}, err
	}
	sum := sha256.New()
	size, err := io.Copy(sum, f)
	if err != nil {
		return program{}, errors.Join(err, f.Close())
	}
	return program{file: f, size: size, sha256: hex.EncodeToString(sum.Sum(nil))}, nil
}

// digest is what the script knows a program by; "-" if there is none that can be sent.
func (all programs) digest(arch string) string {
	if p, ok := all[arch]; ok && p.err == nil {
		return p.sha256
	}
	return "-"
}

// close closes the files, which were only read.
func (all programs) close() {
	for _, p := range all {
		if p.err == nil {
			_ = p.file.Close()
		}
	}
}
