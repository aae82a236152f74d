package enginetest

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/tare-bench/tare/internal/agent"
	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/image/imagetest"
)

// capability is cap_net_raw+ep, as the attribute of a file has it.
const capability = "\x01\x00\x00\x02\x00\x20\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"

// No other user of the host can reach a container's unpacked files, files that root inside can make
// there, or its data: programs with set-user-ID bits or capabilities, and devices, would give every
// user their privileges.
func keepsOthersOut(t *testing.T, s *suite) {
	if os.Geteuid() != 0 {
		return // there is no other user to be
	}
	setuid := imagetest.Entry{Kind: tar.TypeReg, Name: "bin/setuid", Data: "x", Mode: 0o6755}
	capable := imagetest.Entry{Kind: tar.TypeReg, Name: "bin/capable", Data: "x", Mode: 0o755, Capability: capability}
	spec := s.spec("hold")
	if !s.unsupported(AnyImage) {
		spec.Image = imagetest.ForeignOf(t, imagetest.Agent(t), "0", setuid, capable)
	}
	if _, plain := bench.As[bench.DataKeeper](s.engine); !plain && !s.unsupported(StorageBind) {
		spec.Storage = "bind"
	}
	img, err := s.env.Images.Resolve(t.Context(), spec.Image)
	noError(t, err)
	root, err := img.Rootfs(t.Context())
	noError(t, err)
	images := filepath.Dir(filepath.Dir(root))
	for _, userNS := range []bool{false, true} {
		if spec.Security.UserNS = userNS; userNS && s.unsupported(UserNS) {
			continue
		}
		x := s.ready(t, spec, "ready\n")
		for _, file := range reachable(t, privilegedFiles(t, images, s.env.Dir)) {
			t.Errorf("user namespace %v: every user of the host gets at %s", userNS, file)
		}
		s.remove(t, x)
	}
}

// privilegedFiles lists the programs and devices below some directories, and the directories
// that everybody may write to.
func privilegedFiles(t *testing.T, dirs ...string) (files []string) {
	t.Helper()
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := d.Info()
			if err != nil {
				return err
			}
			mode := info.Mode()
			if mode.IsRegular() && mode.Perm()&0o111 != 0 || mode.IsDir() && mode.Perm()&0o002 != 0 || mode&fs.ModeDevice != 0 {
				files = append(files, file)
			}
			return nil
		})
		noError(t, err)
	}
	if len(files) == 0 {
		t.Fatalf("no program below %q", dirs)
	}
	return files
}

// reachable returns those of the files that the user nobody can reach.
func reachable(t *testing.T, files []string) []string {
	t.Helper()
	const nobody = 65534
	cmd := exec.CommandContext(t.Context(), "sh", "-c",
		`while IFS= read -r file; do [ ! -e "$file" ] || printf '%s\n' "$file"; done`)
	cmd.Dir = "/"
	cmd.Stdin = strings.NewReader(strings.Join(files, "\n") + "\n")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := cmd.Output()
	noError(t, err)
	if out = bytes.TrimSpace(out); len(out) == 0 {
		return nil
	}
	return strings.Split(string(out), "\n")
}

// Files that tare makes for a container have the image's permissions inside, whatever tare's umask
// is.
func anyUmask(t *testing.T, s *suite) {
	if s.unsupported(AnyImage) || s.unsupported(ForeignData) {
		return // it refuses images whose user is not root
	}
	image := imagetest.ForeignOf(t, imagetest.Agent(t), "7:8", imagetest.File("etc/implied/file", "text"))
	old := syscall.Umask(0o077)
	defer syscall.Umask(old)
	if got := s.output(t,
		bench.Spec{Image: image, Argv: []string{agent.Path, "cat", "/etc/implied/file"}}); got != "text" {
		t.Errorf("a file of the image: %q, want its text", got)
	}
}

// AsOrdinaryUser runs the named test of the same package once more, as the
// user nobody. If the tests already run as an ordinary user, it does nothing, because the named
// test itself covers that.
func AsOrdinaryUser(t *testing.T, test string) {
	t.Helper()
	if os.Geteuid() != 0 {
		return
	}
	const nobody = 65534
	dir, err := os.MkdirTemp("", "tare-nobody-") // t.TempDir has a parent that others may not enter
	noError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) }) // a leftover in the temporary directory
	noError(t, os.Chown(dir, nobody, nobody))
	program, agent := filepath.Join(dir, "test"), filepath.Join(dir, "agent")
	text, err := os.ReadFile(os.Args[0])
	noError(t, errors.Join(err, os.WriteFile(program, text, 0o755)))
	noError(t, os.WriteFile(agent, imagetest.Agent(t), 0o644))
	cmd := exec.CommandContext(t.Context(), program, "-test.run=^"+test+"$", "-test.v",
		fmt.Sprintf("-test.short=%v", testing.Short()))
	cmd.Dir = dir
	cmd.Env = []string{
		"TMPDIR=" + dir, "PATH=" + os.Getenv("PATH"), imagetest.AgentVariable + "=" + agent,
		enginesVariable + "=" + os.Getenv(enginesVariable), "GORACE=" + os.Getenv("GORACE"),
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%s as user %d: %v\n%s", test, nobody, err, out)
	}
}
