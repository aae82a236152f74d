package network_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tare-bench/tare/internal/load"
	"github.com/tare-bench/tare/internal/load/loadtest"
	"github.com/tare-bench/tare/internal/load/network"
)

const token = "a-token-of-a-test_0123"

// serveVariable makes this program a server, in a process of its own.
const serveVariable = "TARE_TEST_NET_SERVER"

func TestMain(m *testing.M) {
	if os.Getenv(serveVariable) == "" {
		os.Exit(m.Run())
	}
	if err := serve(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	select {} // until it is killed
}

func serve() error {
	args, err := load.ParseArgs(os.Args[1:])
	if err != nil {
		return err
	}
	report, err := network.Serve(args)
	if err != nil {
		return err
	}
	line, err := report.Line()
	if err != nil {
		return err
	}
	_, err = os.Stdout.Write(line)
	return err
}

// start starts a server in a process of its own, and returns where it listens.
func start(t testing.TB) (*exec.Cmd, netip.AddrPort) {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "bind=127.0.0.1")
	cmd.Env = append(os.Environ(), serveVariable+"=1", network.TokenVariable+"="+token)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // a test may have done so
		_ = cmd.Wait()
	})
	buffer := make([]byte, 4096)
	n, err := out.Read(buffer)
	if err != nil {
		t.Fatal(err)
	}
	reports, err := load.Parse(buffer[:n])
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.ParseUint(reports[0].Facts["port"], 10, 16)
	if err != nil {
		t.Fatal(err)
	}
	return cmd, netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), uint16(port))
}

// listen starts a server in this process.
func listen(t *testing.T) *network.Server {
	t.Helper()
	s, err := network.Listen(netip.MustParseAddrPort("127.0.0.1:0"), token)
	if err != nil {
		t.Fatal(err)
	}
	go s.Run()
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

type options map[string]string

// measure runs a client.
func measure(
	t testing.TB, run func(*load.Args) (*load.Report, error), addr netip.AddrPort, o options,
) (*load.Report, error) {
	t.Helper()
	t.Setenv(network.TokenVariable, token)
	all := options{"addr": addr.String()}
	maps.Copy(all, o)
	return run(loadtest.Args(load.Words(all)...))
}

func TestRoundTrips(t *testing.T) {
	_, addr := start(t)
	for name, o := range map[string]options{
		"udp":       {},
		"tcp":       {"protocol": "tcp"},
		"udp small": {"size": "24"},
		"udp large": {"size": "65507", "pings": "1000"},
		"tcp large": {"protocol": "tcp", "size": "60000", "pings": "1000"},
		"paced":     {"rate": "5000"},
		"anywhere":  {"pin": "no"},
	} {
		t.Run(name, func(t *testing.T) {
			if o["pings"] == "" {
				o["pings"] = "2000"
			}
			r, err := measure(t, network.RTT, addr, o)
			if err != nil {
				t.Fatal(err)
			}
			pings, _ := strconv.ParseFloat(o["pings"], 64)
			h, err := r.Distributions["rtt"].Histogram()
			if err != nil || float64(h.Count())+r.Values["rtt.lost"] != pings {
				t.Errorf("%v of %v pings, %v lost; %v", h.Count(), pings, r.Values["rtt.lost"], err)
			}
			v := r.Values
			if v["rtt.p50"] <= 0 || v["rtt.p50"] > v["rtt.p90"] || v["rtt.p90"] > v["rtt.p99"] || v["rtt.p99"] > v["rtt.max"] {
				t.Errorf("out of order: %v", v)
			}
			if _, has := v["rtt.p99.9"]; has {
				t.Error("a percentile with fewer than ten observations beyond it")
			}
		})
	}
}

// Paced pings are as far apart as was asked for: a late one is not the next one's time.
func TestPacedPingsTakeTheirTime(t *testing.T) {
	_, addr := start(t)
	begin := time.Now()
	if _, err := measure(t, network.RTT, addr, options{"pings": "100", "warmup": "0", "rate": "500"}); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begin); took < 198*time.Millisecond {
		t.Errorf("100 pings at 500 a second took %v", took)
	}
}

func TestThroughput(t *testing.T) {
	_, addr := start(t)
	for name, o := range map[string]options{
		"tcp up":        {},
		"tcp down":      {"direction": "down"},
		"tcp both":      {"direction": "both", "streams": "2"},
		"udp up":        {"protocol": "udp"},
		"udp down":      {"protocol": "udp", "direction": "down"},
		"udp both":      {"protocol": "udp", "direction": "both"},
		"udp large":     {"protocol": "udp", "size": "60000"},
		"udp one by 1":  {"protocol": "udp", "batch": "no"},
		"udp at a rate": {"protocol": "udp", "rate": "2000000"},
	} {
		t.Run(name, func(t *testing.T) {
			o["time"], o["warmup"] = "150ms", "20ms"
			r, err := measure(t, network.Throughput, addr, o)
			if err != nil {
				t.Fatal(err)
			}
			v := r.Values
			if v["throughput.rate"] <= 0 || v["throughput.client_cpu"] < 0 || v["throughput.server_cpu"] < 0 {
				t.Errorf("%v", v)
			}
			_, lost := v["throughput.loss"]
			if lost != (o["protocol"] == "udp") || v["throughput.loss"] < 0 || v["throughput.loss"] > 1 {
				t.Errorf("loss %v in %v", v["throughput.loss"], v)
			}
			if o["rate"] != "" && v["throughput.offered"] > 2_200_000 {
				t.Errorf("offered %v, asked for 2000000", v["throughput.offered"])
			}
		})
	}
}

func TestKnee(t *testing.T) {
	_, addr := start(t)
	r, err := measure(t, network.Throughput, addr,
		options{"protocol": "udp", "knee": "yes", "time": "100ms", "warmup": "10ms"})
	if err != nil {
		t.Fatal(err)
	}
	knee, has := r.Values["throughput.knee"]
	if has == slices.Contains(r.Notes, network.NoteNoKnee) || has && knee <= 0 ||
		knee > r.Values["throughput.offered"]*1.01 {
		t.Errorf("the knee is at %v, %v", knee, r.Values)
	}
}

// One datagram in four is lost, however few are sent.
func TestNoKnee(t *testing.T) {
	_, addr := start(t)
	through := newRelay(t, addr, func(n int, p []byte, send func([]byte)) {
		if n%4 != 3 {
			send(p)
		}
	})
	r, err := measure(t, network.Throughput, addr, options{
		"udp": through.String(), "protocol": "udp", "knee": "yes", "size": "1000", "time": "200ms", "warmup": "10ms",
	})
	if err != nil {
		t.Fatal(err)
	}
	if knee, has := r.Values["throughput.knee"]; has || !slices.Contains(r.Notes, network.NoteNoKnee) {
		t.Errorf("the knee is at %v, marked %v", knee, r.Notes)
	}
}

// newRelay passes UDP on from a client to a server and back, and does with each
// datagram what it is told.
func newRelay(
	t *testing.T, server netip.AddrPort, pass func(n int, datagram []byte, send func([]byte)),
) netip.AddrPort {
	t.Helper()
	front, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.MustParseAddrPort("127.0.0.1:0")))
	if err != nil {
		t.Fatal(err)
	}
	back, err := net.DialUDP("udp4", nil, net.UDPAddrFromAddrPort(server))
	if err != nil {
		t.Fatal(err)
	}
	_ = front.SetReadBuffer(4 << 20) // as much as is allowed
	t.Cleanup(func() { _ = front.Close(); _ = back.Close() })
	client := make(chan netip.AddrPort, 1)
	go func() {
		buffer := make([]byte, 1<<16)
		known := false
		for i := 0; ; i++ {
			n, from, err := front.ReadFromUDPAddrPort(buffer)
			if err != nil {
				return
			}
			if !known {
				client <- from
				known = true
			}
			pass(i, bytes.Clone(buffer[:n]), func(p []byte) { _, _ = back.Write(p) })
		}
	}()
	go func() {
		to, buffer := <-client, make([]byte, 1<<16)
		for {
			n, err := back.Read(buffer)
			if err != nil {
				return
			}
			_, _ = front.WriteToUDPAddrPort(buffer[:n], to)
		}
	}()
	return front.LocalAddr().(*net.UDPAddr).AddrPort()
}

// What is lost is counted and has no time.
func TestLostPingsAreCounted(t *testing.T) {
	_, addr := start(t)
	through := newRelay(t, addr, func(n int, p []byte, send func([]byte)) {
		if n == 0 || n%20 != 0 { // the first is the knock
			send(p)
		}
	})
	r, err := measure(t, network.RTT, addr,
		options{"udp": through.String(), "pings": "100", "warmup": "0", "timeout": "300ms"})
	if err != nil {
		t.Fatal(err)
	}
	h, err := r.Distributions["rtt"].Histogram()
	if err != nil {
		t.Fatal(err)
	}
	if lost := r.Values["rtt.lost"]; lost < 5 || float64(h.Count())+lost != 100 {
		t.Errorf("%v lost, %v timed; want 5 lost", lost, h.Count())
	}
}

// One datagram in four is lost, and one in four comes after the one behind it.
func TestLossAndReorderingAreFound(t *testing.T) {
	_, addr := start(t)
	var held []byte
	through := newRelay(t, addr, func(n int, p []byte, send func([]byte)) {
		switch n % 4 {
		case 1:
			held = p
		case 2:
			send(p)
			send(held)
		case 3:
		default:
			send(p)
		}
	})
	r, err := measure(t, network.Throughput, addr, options{
		"udp": through.String(), "protocol": "udp", "rate": "500000", "size": "1000", "time": "400ms", "warmup": "10ms",
	})
	if err != nil {
		t.Fatal(err)
	}
	v := r.Values
	if v["throughput.loss"] < 0.2 || v["throughput.reordered"] < 0.2 || v["throughput.reordered"] > 0.4 ||
		v["throughput.jitter"] <= 0 {
		t.Errorf("loss %v, want a quarter at least; out of order %v of what came, want about a third; jitter %v",
			v["throughput.loss"], v["throughput.reordered"], v["throughput.jitter"])
	}
}

// wantError runs a client that must fail, soon, with an error of that kind.
func wantError(t *testing.T, want error, says string, run func() error) {
	t.Helper()
	const limit = 20 * time.Second
	failed := make(chan error, 1)
	go func() { failed <- run() }()
	select {
	case err := <-failed:
		if !errors.Is(err, want) || !strings.Contains(fmt.Sprint(err), says) {
			t.Errorf("%v; want %v, saying %q", err, want, says)
		}
	case <-time.After(limit):
		t.Errorf("nothing for %v, want %v", limit, want)
	}
}

func TestServerThatIsKilled(t *testing.T) {
	for name, test := range map[string]struct {
		run func(*load.Args) (*load.Report, error)
		o   options
	}{
		"udp pings": {network.RTT, options{"pings": "1000000000"}},
		"tcp pings": {network.RTT, options{"pings": "1000000000", "protocol": "tcp"}},
		"paced":     {network.RTT, options{"pings": "1000000000", "rate": "100"}},
		"tcp up":    {network.Throughput, options{"time": "1h"}},
		"tcp down":  {network.Throughput, options{"time": "1h", "direction": "down"}},
		"udp up":    {network.Throughput, options{"time": "1h", "protocol": "udp"}},
		"udp down":  {network.Throughput, options{"time": "1h", "protocol": "udp", "direction": "down"}},
	} {
		t.Run(name, func(t *testing.T) {
			server, addr := start(t)
			time.AfterFunc(200*time.Millisecond, func() { _ = server.Process.Kill() })
			wantError(t, network.ErrGone, addr.String(),
				func() error { _, err := measure(t, test.run, addr, test.o); return err })
		})
	}
}

func TestNobodyThere(t *testing.T) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := free.Addr().(*net.TCPAddr).AddrPort()
	_ = free.Close()
	wantError(t, network.ErrUnreachable, addr.String(),
		func() error { _, err := measure(t, network.RTT, addr, nil); return err })
}

// A port behind which UDP goes nowhere, though TCP gets through.
func TestNoWayForDatagrams(t *testing.T) {
	_, addr := start(t)
	hole, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = hole.Close() }()
	wantError(t, network.ErrUnreachable, "though TCP works", func() error {
		_, err := measure(t, network.RTT, addr, options{"udp": hole.LocalAddr().String()})
		return err
	})
}

func TestWrongToken(t *testing.T) {
	s := listen(t)
	wantError(t, network.ErrRefused, "token", func() error {
		t.Setenv(network.TokenVariable, "another-token-0123456789")
		_, err := network.RTT(loadtest.Args("addr=" + s.Address().String()))
		return err
	})
}

// exchangeText sends text to an address and returns what is said to it.
func exchangeText(t *testing.T, addr netip.AddrPort, text string) string {
	t.Helper()
	c, err := net.Dial("tcp", addr.String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	_, _ = io.WriteString(c, text) // it may have closed already
	answer, _ := io.ReadAll(io.LimitReader(c, 1<<16))
	return string(answer)
}

func TestStrangers(t *testing.T) {
	s := listen(t)
	for name, text := range map[string]string{
		"another protocol": "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
		"too much":         strings.Repeat("x", 1<<20) + "\n",
		"nothing":          "\n",
	} {
		if answer := exchangeText(t, s.Address(), text); answer != "" {
			t.Errorf("%s: it was answered: %q", name, answer)
		}
	}
	if answer := exchangeText(t, s.Address(),
		network.AtVersion(network.Version+1, token)+"\n"); !strings.Contains(answer, "same version") {
		t.Errorf("another version: %q", answer)
	}
	for name, text := range map[string]string{
		"no JSON":      "x\n",
		"no request":   "{}\n",
		"wrong order":  `{"op":"begin"}` + "\n",
		"no plan":      `{"op":"open"}` + "\n",
		"a wild plan":  `{"op":"open","plan":{"protocol":"udp","streams":1000000,"size_bytes":64}}` + "\n",
		"a long line":  strings.Repeat("x", 1<<20) + "\n",
		"a deep value": `{"op":` + strings.Repeat("[", 1<<15) + "\n",
	} {
		if answer := exchangeText(t, s.Address(),
			network.AtVersion(network.Version, token)+"\n"+text); !strings.Contains(answer, `"error"`) {
			t.Errorf("%s: %q is no refusal", name, answer)
		}
	}
	if _, err := measure(t, network.RTT, s.Address(), options{"pings": "100"}); err != nil {
		t.Errorf("after all that: %v", err)
	}
}

// A datagram without the key of a session is not answered.
func TestStrangersDatagrams(t *testing.T) {
	s := listen(t)
	c, err := net.Dial("udp4", s.Address().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	for _, n := range []int{0, 1, 24, 1000} {
		if _, err := c.Write(make([]byte, n)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := measure(t, network.RTT, s.Address(), options{"pings": "100"}); err != nil {
		t.Fatal(err)
	}
	_ = c.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if n, err := c.Read(make([]byte, 1)); err == nil {
		t.Errorf("%d bytes came back", n)
	}
}

// A second client is told to wait, and the first one goes on.
func TestOneSessionAtATime(t *testing.T) {
	s := listen(t)
	open := network.AtVersion(network.Version,
		token) + "\n" + `{"op":"open","plan":{"echo":true,"protocol":"tcp","streams":1,"size_bytes":64}}` + "\n"
	first, err := net.Dial("tcp", s.Address().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = first.Close() }()
	if _, err := io.WriteString(first, open); err != nil {
		t.Fatal(err)
	}
	answer := make([]byte, 1024)
	for n := 0; !bytes.Contains(answer[:n], []byte("key")); {
		more, err := first.Read(answer[n:])
		if err != nil {
			t.Fatal(err)
		}
		n += more
	}
	if answer := exchangeText(t, s.Address(), open); !strings.Contains(answer, "another client") {
		t.Errorf("the second was told %q", answer)
	}
}

func TestOtherServers(t *testing.T) {
	for name, test := range map[string]struct {
		says string
		want error
	}{
		"silent":          {"", network.ErrForeign},
		"another":         {"220 mail.example ESMTP\r\n", network.ErrForeign},
		"another version": {"tare-net 7 ok\n", network.ErrVersion},
		"no end":          {strings.Repeat("y", 1<<16), network.ErrForeign},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = l.Close() }()
			go func() {
				c, err := l.Accept()
				if err != nil {
					return
				}
				_, _ = io.WriteString(c, test.says)
				time.Sleep(100 * time.Millisecond)
				_ = c.Close()
			}()
			addr := l.Addr().(*net.TCPAddr).AddrPort()
			wantError(t, test.want, addr.String(), func() error { _, err := measure(t, network.RTT, addr, nil); return err })
		})
	}
}

func TestPortThatIsTaken(t *testing.T) {
	onTCP, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = onTCP.Close() }()
	onUDP, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = onUDP.Close() }()
	ours := listen(t)
	for name, addr := range map[string]netip.AddrPort{
		"tcp":           onTCP.Addr().(*net.TCPAddr).AddrPort(),
		"udp":           onUDP.LocalAddr().(*net.UDPAddr).AddrPort(),
		"tare's server": ours.Address(),
	} {
		s, err := network.Listen(addr, token)
		if err == nil {
			_ = s.Close()
		}
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("port %d is in use", addr.Port())) {
			t.Errorf("%s: %v does not say that port %d is taken", name, err, addr.Port())
		}
	}
}

func TestOptionsAreChecked(t *testing.T) {
	t.Setenv(network.TokenVariable, token)
	for name, test := range map[string]struct {
		run   func(*load.Args) (*load.Report, error)
		words []string
		says  string
	}{
		"no address":     {network.RTT, nil, "addr="},
		"no port":        {network.RTT, []string{"addr=127.0.0.1"}, "ADDRESS:PORT"},
		"a name":         {network.Throughput, []string{"addr=localhost:1"}, "ADDRESS:PORT"},
		"no pings":       {network.RTT, []string{"addr=127.0.0.1:1", "pings=0"}, "pings"},
		"unknown option": {network.RTT, []string{"addr=127.0.0.1:1", "colour=red"}, "colour"},
		"protocol":       {network.Throughput, []string{"addr=127.0.0.1:1", "protocol=sctp"}, "protocol"},
		"bind":           {network.Serve, []string{"bind=somewhere"}, "bind"},
	} {
		if _, err := test.run(loadtest.Args(test.words...)); err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v does not say %q", name, err, test.says)
		}
	}
	t.Setenv(network.TokenVariable, "")
	if _, err := network.RTT(loadtest.Args("addr=127.0.0.1:1")); err == nil ||
		!strings.Contains(err.Error(), network.TokenVariable) {
		t.Errorf("without a token: %v", err)
	}
}
