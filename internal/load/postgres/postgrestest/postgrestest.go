// Package postgrestest starts PostgreSQL servers of this machine's package for tests.
package postgrestest

import (
	"bytes"
	"cmp"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tare-bench/tare/internal/load/postgres"
)

// Program returns the path of one of PostgreSQL's programs, of its newest version here; the test is
// skipped if there is none.
func Program(t testing.TB, name string) string {
	t.Helper()
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/" + name) // the pattern is good
	if len(found) == 0 {
		path, err := exec.LookPath(name)
		if err != nil {
			t.Skipf("PostgreSQL is not here: %v", err)
		}
		return path
	}
	return slices.MaxFunc(found, func(a, b string) int { return cmp.Compare(version(a), version(b)) })
}

// version is the version in a path of Debian's packages.
func version(path string) float64 {
	v, _ := strconv.ParseFloat(filepath.Base(filepath.Dir(filepath.Dir(path))), 64)
	return v
}

// A Server is a running server with an empty database. It accepts everybody, as user postgres, at a
// TCP address of this machine and at a socket.
type Server struct {
	postgres.Config // by TCP

	Dir     string // the directory of its socket
	Data    string // the directory of its data
	Process *os.Process
	log     *bytes.Buffer
}

// Options say how a server is started.
type Options struct {
	Settings []string // NAME=VALUE
	HBA      string   // the text of pg_hba.conf; "" = everybody is trusted
	TLS      bool     // it has a certificate, which it has signed itself
	Launcher []string // words before the program's own, such as taskset -c 1
}

// template is the directory of data that Main keeps for all servers of a test program; "" = there is none.
var template string

// Main runs the tests of a package with several servers, whose directories of data are copies of one.
func Main(m *testing.M) int {
	dir, err := os.MkdirTemp("", "tare-pg")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }() // best effort, as in Start
	template = filepath.Join(dir, "data")
	return m.Run()
}

// makeData makes the directory of data of a server.
func makeData(t testing.TB, who *syscall.Credential, data string) {
	t.Helper()
	made := data
	if template != "" {
		made = template
	}
	if _, err := os.Stat(made); err != nil {
		owner(t, filepath.Dir(made))
		run(t, who, Program(t, "initdb"), "-D", made, "-U", "postgres", "-A", "trust", "--no-locale", "-E", "UTF8", "-N")
	}
	if made != data {
		run(t, who, "cp", "-a", made, data)
	}
}

// Start starts a server, which ends with the test.
func Start(t testing.TB, o Options) *Server {
	t.Helper()
	program := Program(t, "postgres")
	dir, err := os.MkdirTemp("", "tare-pg") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) }) // best effort: it is below the system's directory for such things
	s := &Server{Dir: dir, Data: filepath.Join(dir, "data"), log: &bytes.Buffer{}}
	who := owner(t, dir)
	makeData(t, who, s.Data)
	if o.HBA != "" {
		write(t, filepath.Join(s.Data, "pg_hba.conf"), o.HBA)
	}
	if o.TLS {
		certify(t, who, s.Data)
		o.Settings = append(slices.Clone(o.Settings), "ssl=on")
	}
	s.Address = freeAddress(t)
	s.Port = int(s.Address.Port())
	argv := append(slices.Clone(o.Launcher), program, "-D", s.Data, "-k", dir, "-p", strconv.Itoa(s.Port))
	for _, one := range append([]string{"listen_addresses=127.0.0.1"}, o.Settings...) {
		argv = append(argv, "-c", one)
	}
	s.start(t, who, argv)
	return s
}

// BySocket returns how to connect to the server's socket.
func (s *Server) BySocket() postgres.Config {
	c := s.Config
	c.Socket = s.Dir
	return c
}

// Words returns the options of the load for the server.
func (s *Server) Words(more ...string) []string {
	return append([]string{"address=" + s.Address.String()}, more...)
}

// Connect connects to the server until the test ends.
func (s *Server) Connect(t testing.TB) *postgres.Conn {
	t.Helper()
	c, err := postgres.Dial(t.Context(), s.Config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() }) // never returns an error
	return c
}

func (s *Server) start(t testing.TB, who *syscall.Credential, argv []string) {
	t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr, cmd.Dir = s.log, s.log, s.Dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: who, Setpgid: true, Pdeathsig: 0}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.Process = cmd.Process
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() { s.stop(t, ended) })
	for range 500 {
		c, err := postgres.Dial(t.Context(), s.Config)
		if err == nil {
			_ = c.Close() // never returns an error
			return
		}
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("the server has ended: %v\n%s", err, s.log)
		case <-time.After(20 * time.Millisecond):
		}
	}
	t.Fatal("the server does not accept a client within 10 s")
}

// stop ends the server as a fast shutdown does: its shared memory goes with it.
func (s *Server) stop(t testing.TB, ended <-chan error) {
	for _, signal := range []syscall.Signal{syscall.SIGCONT, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGKILL} {
		_ = s.Process.Signal(signal) // it may have ended
		if signal == syscall.SIGCONT {
			continue
		}
		select {
		case err := <-ended:
			if t.Failed() {
				t.Logf("the server has ended: %v; its log:\n%s", err, s.log)
			}
			return
		case <-time.After(10 * time.Second):
		}
	}
	t.Errorf("the server (process %d) does not end", s.Process.Pid)
}

// owner gives the directory to the user who runs the server, since PostgreSQL refuses root; nil = to
// nobody else.
func owner(t testing.TB, dir string) *syscall.Credential {
	t.Helper()
	if os.Geteuid() != 0 {
		return nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		u, err = user.Lookup("nobody")
	}
	if err != nil {
		t.Fatal(err)
	}
	uid, err1 := strconv.Atoi(u.Uid)
	gid, err2 := strconv.Atoi(u.Gid)
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	if err := os.Chown(dir, uid, gid); err != nil {
		t.Fatal(err)
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}

func run(t testing.TB, who *syscall.Credential, argv ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: who}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(argv, " "), err, out)
	}
}

// certify makes a key and a certificate where a server looks for them.
func certify(t testing.TB, who *syscall.Credential, data string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour),
	}
	certificate, err1 := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	private, err2 := x509.MarshalPKCS8PrivateKey(key)
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	for name, block := range map[string]*pem.Block{
		"server.crt": {Type: "CERTIFICATE", Bytes: certificate},
		"server.key": {Type: "PRIVATE KEY", Bytes: private},
	} {
		path := filepath.Join(data, name)
		write(t, path, string(pem.EncodeToMemory(block)))
		if who != nil {
			if err := os.Chown(path, int(who.Uid), int(who.Gid)); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// freeAddress returns an address at which nobody listens.
func freeAddress(t testing.TB) netip.AddrPort {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }() // it is only listened to
	return netip.MustParseAddrPort(fmt.Sprint(l.Addr()))
}
