package postgres

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/tare-bench/tare/internal/bench"
	load "github.com/tare-bench/tare/internal/load/postgres"
	"github.com/tare-bench/tare/internal/supervise"
)

// The codes (SQLSTATE) that have a sentence of their own.
const (
	codeDiskFull           = "53100"
	codeOutOfMemory        = "53200"
	codeTooManyConnections = "53300"
	codeWrongPassword      = "28P01"
	codeNotAllowed         = "28000"
	codeNoDatabase         = "3D000"
	codeCannotConnectNow   = "57P03"
)

// explain says what an error means, by its code or by the server's log, and what to do about it. The
// error of a server that has ended gets the line that tells why, and that of one that was never ready its last lines.
func (s *server) explain(err error) error {
	if err == nil {
		return nil
	}
	if said, ok := errors.AsType[*load.ServerError](err); ok {
		if advice := s.adviceOf(said); advice != "" {
			return fmt.Errorf("%w: %s", err, advice)
		}
	}
	log := s.log.text()
	for _, f := range s.failures() {
		if line := lineWith(log, f.words); line != "" {
			return fmt.Errorf("%w: %s; the server's log says: %s", err, f.means, line)
		}
	}
	if line := s.log.lastSevere(); line != "" && !errors.Is(err, bench.ErrMismatch) {
		return fmt.Errorf("%w; the server's log says: %s", err, line)
	}
	if !errors.Is(err, supervise.ErrNotReady) { // others say themselves what was wrong
		return err
	}
	const enough = 3
	if lines := s.log.latest(enough); len(lines) > 0 {
		return fmt.Errorf("%w; the last that it printed: %s", err, strings.Join(lines, "; "))
	}
	return fmt.Errorf("%w; it has printed nothing", err)
}

// trialDiskFull is what a full disk means in a trial.
const trialDiskFull = "the file system with the cell's data is full: choose another directory with data, a larger " +
	"tmpfs, or a smaller scale"

func (s *server) adviceOf(said *load.ServerError) string {
	switch said.Code {
	case codeDiskFull:
		if strings.Contains(said.Message, "shared memory segment") { // it has the same code
			return "/dev/shm is too small: raise shm"
		}
		return cmp.Or(s.diskFull, trialDiskFull)
	case codeOutOfMemory:
		return "the server has no memory left: raise memory, or lower shared_buffers or clients"
	case codeTooManyConnections:
		return "other clients use this server's connections: end them, or choose a network on which only tare reaches it " +
			"(bridge or socket)"
	case codeWrongPassword, codeNotAllowed:
		return "it does not accept tare's password: does another server listen there? choose another port, or leave " +
			"option port out"
	case codeNoDatabase:
		return "it has another cluster: does another server listen there? choose another port, or leave option port out"
	}
	return ""
}

// A failure is one that only the server's log tells.
type failure struct{ words, means string }

// failures are in the order of causes before effects.
func (s *server) failures() []failure {
	return []failure{
		{"Address already in use", "another program has taken the server's port or socket: choose another with option port"},
		{"lock file \"postmaster.pid\" already exists", "another server runs on the same data, or the copy is not fresh"},
		{"could not map anonymous shared memory", "shared_buffers is larger than the memory that the cell may use"},
		{"could not resize shared memory segment", "/dev/shm is too small: raise shm"},
		{"could not create semaphores", "the kernel has no semaphores left: use fewer clients, or raise kernel.sem"},
		{"could not create shared memory segment", "the kernel has no shared memory left: raise kernel.shmmni or " +
			"kernel.shmall"},
		{"No space left on device", cmp.Or(s.diskFull, trialDiskFull)},
		{"Read-only file system", "the cell's data cannot be written: choose another storage, or leave read_only out"},
		{"database files are incompatible with server", "the cluster was made by another major version than that of the " +
			"server"},
		{"has wrong ownership", "the copy of the cluster belongs to another user than the one who runs the server"},
		{"has invalid permissions", "the copy of the cluster can be read by others, which the server refuses"},
		{"\"root\" execution of", "the server runs as root: the launcher could not give root up"},
		{"unexpected postmaster exit", "the first process of the server was killed or crashed: if it was for lack of " +
			"memory, raise memory"},
		{"terminated by signal 9", "the kernel or somebody killed a process of the server, which then lost all " +
			"connections: if it was for lack of memory, raise memory"},
		{"terminated by signal", "a process of the server crashed, which then lost all connections"},
		{"unrecognized configuration parameter", "this version has no such setting: see option set"},
		{"invalid value for parameter", "the server refuses a setting: see option set"},
		{"PANIC:", "the server gave up"},
	}
}

// lineWith returns the first line that has the words, in whatever case: the server and the launcher
// spell the kernel's errors differently.
func lineWith(text, words string) string {
	words = strings.ToLower(words)
	for line := range strings.Lines(text) {
		if strings.Contains(strings.ToLower(line), words) {
			return strings.TrimSpace(line)
		}
	}
	return ""
}
