package postgres

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tare-bench/tare/internal/kernel/affinity"
	"github.com/tare-bench/tare/internal/load"
	"github.com/tare-bench/tare/internal/load/client"
	"github.com/tare-bench/tare/internal/load/turn"
)

// The bounds of the options.
const (
	maxClients = 1000
	maxRate    = 1_000_000
	maxTime    = time.Hour
)

// A plan says what the clients do.
type plan struct {
	script  *script
	scale   int64
	clients int
	each    bool          // a connection for each transaction
	stay    bool          // the last connections stay open
	linger  time.Duration // for so long they do after the report, if they do not stay
	rate    int64         // transactions per second; 0 = a closed loop
	warmup  time.Duration
	time    time.Duration // after the warm-up
	seed    uint64
	tls     bool
}

// readPlan reads the options of the load that are also options of the workload.
func readPlan(a *load.Args) plan {
	p := plan{
		scale:   a.Int("scale", 1, 1, MaxScale),
		clients: int(a.Int("clients", 1, 1, maxClients)),
		each:    a.Word("connect", "once", "once", "each") == "each",
		stay:    a.Word("stay", "no", "no", "yes") == "yes",
		linger:  a.Duration("linger", 0, 0, time.Minute),
		rate:    a.Int("rate", 0, 0, maxRate),
		warmup:  a.Duration("warmup", 250*time.Millisecond, 0, time.Minute),
		time:    a.Duration("time", 2*time.Second, 10*time.Millisecond, maxTime),
		seed:    uint64(a.Int("seed", 1, 0, 1<<62)),
		tls:     a.Word("tls", "no", "no", "yes") == "yes",
	}
	p.script = scriptOf(a.Word("script", SelectOnly, Scripts()...))
	return p
}

// Valid checks each option by itself; see load.Valid. The options that say where the server is are
// not among them.
func Valid(a *load.Args) error {
	readPlan(a)
	return a.Err()
}

// takesTurns reports whether nothing changes if the clients rest now and then: writes leave work for
// the server to do meanwhile, and in an open loop transactions are due at fixed times.
func (p *plan) takesTurns() bool {
	return p.script.name == SelectOnly && p.rate == 0 && !p.each
}

// times say when transactions begin.
func (p *plan) times() client.Times {
	return client.Times{Warmup: p.warmup, Time: p.time, Rate: p.rate}
}

// seconds is the number of whole seconds of the measured time, if they are told one by one.
func (p *plan) seconds() int {
	n := int(p.time / time.Second)
	if n < leastSeconds {
		return 0
	}
	return n
}

// leastSeconds is the least number of seconds that are worth a series.
const leastSeconds = 3

// A target is the server, and how the client works.
type target struct {
	Config

	cpus  []int         // one for each thread; empty = one thread on any CPU
	wait  time.Duration // how long to wait for a first connection; 0 = do not wait
	turns *turn.Page    // nil = the load runs in one go

	answerTime time.Duration // how long the server may take for an answer
}

// PasswordVariable is the environment variable with the password, as of PostgreSQL's own clients: unlike a command line,
// only the same user and root can read it.
const PasswordVariable = "PGPASSWORD"

// longestAnswer is how long a server may take for an answer. Checkpoints can stall it for many seconds.
const longestAnswer = time.Minute

func readTarget(a *load.Args) (t target, err error) {
	address, list := a.Text("address", ""), a.Text("cpus", "")
	t.Socket, t.Port = a.Text("socket", ""), int(a.Int("port", DefaultPort, 1, 1<<16-1))
	t.User, t.Database = a.Text("user", ""), a.Text("database", "")
	t.Password, t.answerTime = a.Text("password", os.Getenv(PasswordVariable)), longestAnswer
	t.wait = a.Duration("wait", 0, 0, time.Minute)
	switch {
	case (address == "") == (t.Socket == ""):
		return t, errors.New("want either address=IP:PORT or socket=DIR")
	case t.Socket != "" && !filepath.IsAbs(t.Socket):
		return t, fmt.Errorf("socket=%.80q: want the absolute path of a directory", t.Socket)
	case address != "":
		if t.Address, err = netip.ParseAddrPort(address); err != nil {
			return t, fmt.Errorf("address=%.80q: want IP:PORT of a server, such as 127.0.0.1:5432", address)
		}
	}
	if strings.Contains(t.User+t.Database+t.Password, "\x00") {
		return t, errors.New("user, database and password cannot have a zero byte")
	}
	if t.cpus, err = affinity.Parse(list); err != nil {
		return t, fmt.Errorf("cpus=%.80q: %w", list, err)
	}
	return t, nil
}
