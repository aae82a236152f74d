package http_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tare-bench/tare/internal/bench"
	"github.com/tare-bench/tare/internal/image"
	"github.com/tare-bench/tare/internal/image/imagetest"
	"github.com/tare-bench/tare/internal/load"
	loads "github.com/tare-bench/tare/internal/load/http"
	"github.com/tare-bench/tare/internal/load/https"
	"github.com/tare-bench/tare/internal/workload/http"
	"github.com/tare-bench/tare/internal/workload/localtest"
	"github.com/tare-bench/tare/internal/workload/workloadtest"
)

// TestMain makes this program the client for TLS and HTTP/2, as tare itself is.
func TestMain(m *testing.M) {
	if len(os.Args) > 4 && slices.Equal(os.Args[1:4], []string{"agent", "load", "https"}) {
		os.Exit(client(os.Args[4:]))
	}
	os.Exit(m.Run())
}

func client(words []string) int {
	args, err := load.ParseArgs(words)
	if err == nil {
		var report *load.Report
		if report, err = https.Run(args); err == nil {
			var line []byte
			line, err = report.Line()
			_, _ = os.Stdout.Write(line) // who started it reads all of it
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func workload(t testing.TB) bench.Workload {
	t.Helper()
	return http.New(func(dir string) *image.Library { return image.NewLibrary(dir, image.WithAgent(imagetest.Agent(t))) })
}

// params are the defaults in a short form, and what is given.
func params(t testing.TB, given map[string]string) map[string]string {
	all := map[string]string{}
	for _, p := range workload(t).Params() {
		all[p.Name] = p.Default
	}
	if given["tool"] == "" { // which does not know a warm-up
		maps.Copy(all, map[string]string{"time": "200ms", "warmup": "20ms", "size": "1KB"})
		if !testing.Short() { // beside the long form of all tests, a short time may see nothing
			all["time"] = "1s"
		}
	}
	maps.Copy(all, given)
	return all
}

// measure runs two trials of one cell. In the short form a tool, which takes a second at least, has one.
func measure(t testing.TB, e bench.Engine, spec bench.Spec, given map[string]string) []bench.Sample {
	t.Helper()
	n := 2
	if testing.Short() && given["tool"] != "" {
		n = 1
	}
	return workloadtest.Trials{
		Workload: workload(t), Engine: e, Client: localtest.Native(t), Spec: spec, Params: params(t, given), N: n,
	}.Run(t)
}

// complete holds samples to have succeeded, without failures and with values above
// zero, and to have been applied the same.
func complete(t *testing.T, samples []bench.Sample, metrics ...string) map[string]float64 {
	t.Helper()
	var values map[string]float64
	for _, s := range samples {
		if s.Outcome != bench.OK {
			t.Fatalf("%s: %s", s.Outcome, s.Reason)
		}
		values = workloadtest.Values(workload(t), s)
		for _, name := range append(metrics, http.Rate, http.Requests, http.Elapsed) {
			if values[name] <= 0 {
				t.Errorf("%s = %v", name, values[name])
			}
		}
		if values[http.Failed] != 0 || len(s.Applied.Path) == 0 {
			t.Errorf("%v failed; path %v", values[http.Failed], s.Applied.Path)
		}
	}
	if diff := cmp.Diff(samples[0].Applied, samples[len(samples)-1].Applied); diff != "" {
		t.Errorf("applied to the last (-first +last):\n%s", diff)
	}
	return values
}

var server = []string{
	"http.memory_rest", "http.memory_load", "http.time.p50", "http.first_byte.p50", "http.connect.min", "http.document",
}

func needProgram(t testing.TB, name string) {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skipf("install %s to test with it", name)
	}
}

func TestNative(t *testing.T) {
	e := localtest.Native(t)
	for name, given := range map[string]map[string]string{
		"tare's own":   {},
		"by number":    {"requests": "500", "size": "1MB"},
		"open loop":    {"rate": "2000"},
		"a share":      {"rate": "50%"},
		"without pins": {"pin": "no", "keepalive": "no"},
	} {
		t.Run(name, func(t *testing.T) {
			samples := measure(t, e, bench.Spec{Network: "host"}, given)
			v := complete(t, samples, server...)
			if want := map[string]float64{"1MB": 1e6}[given["size"]]; want > 0 && v["http.document"] != want ||
				given["requests"] != "" && v[http.Requests] != 500 {
				t.Errorf("%v", v)
			}
			if len(samples[0].Distributions) < 3 {
				t.Errorf("distributions %v", samples[0].Distributions)
			}
			isOpen := given["rate"] != ""
			if isOpen != (v["http.offered"] > 0) {
				t.Errorf("%v requests per second were due", v["http.offered"])
			}
			if slices.Contains(samples[0].Notes, loads.NoteClosedLoop) == isOpen {
				t.Errorf("notes %v", samples[0].Notes)
			}
		})
	}
}

// A ramp tells the highest rate that it tried and that held, or that none did.
func TestRamp(t *testing.T) {
	given := map[string]string{"ramp": "yes", "rate": "500", "objective": "50ms", "time": "100ms", "connections": "2"}
	s := measure(t, localtest.Native(t), bench.Spec{Network: "host"}, given)[0]
	if s.Outcome == bench.Failed && strings.Contains(s.Reason, "even 500") {
		return // this machine is too busy even for that
	}
	v := complete(t, []bench.Sample{s, s}, server...)
	if v["http.highest"] < 500 || v["http.highest"] != v["http.offered"] {
		t.Errorf("%v", v)
	}
}

// The host's nginx, with the same configuration beside a container and in it.
func TestNginx(t *testing.T) {
	needProgram(t, "/usr/sbin/nginx")
	given := map[string]string{"server": "nginx"}
	complete(t, measure(t, localtest.Native(t), bench.Spec{Network: "host"}, given), server...)
	d := localtest.Docker(t)
	complete(t, measure(t, d, bench.Spec{Network: "bridge", Reach: bench.ReachPeer}, given), server...)
	complete(t, measure(t, d, bench.Spec{Image: "host:nginx", Network: "bridge", Reach: bench.ReachPublished}, nil),
		server...)
	complete(t, measure(t, d, bench.Spec{Image: "host:nginx"}, map[string]string{"server": "image"}), server...)
}

// TLS and HTTP/2, each alone and together.
func TestEncrypted(t *testing.T) {
	needProgram(t, "/usr/sbin/nginx")
	for _, given := range []map[string]string{{"tls": "yes"}, {"http2": "yes"}, {"tls": "yes", "http2": "yes"}} {
		given["server"], given["size"], given["requests"] = "nginx", "100KB", "200"
		complete(t, measure(t, localtest.Native(t), bench.Spec{Network: "host"}, given), server...)
	}
}

func TestDocker(t *testing.T) {
	complete(t, measure(t, localtest.Docker(t), bench.Spec{}, nil), server...)
}

// An image's own server has the content where it looks for documents, and may be
// any user.
func TestOwnServer(t *testing.T) {
	spec := bench.Spec{
		Image: imagetest.Foreign(t, imagetest.Agent(t)),
		Argv:  []string{"/tare-agent", "load", "http-server", "port=8081", "root=/usr/share/nginx/html"},
	}
	v := complete(t, measure(t, localtest.Docker(t), spec, map[string]string{"port": "8081"}), server...)
	if v["http.document"] != 1000 {
		t.Errorf("%v", v)
	}
}

func TestTools(t *testing.T) {
	for _, tool := range []string{"ab", "wrk"} {
		t.Run(tool, func(t *testing.T) {
			needProgram(t, tool)
			complete(t, measure(t, localtest.Native(t), bench.Spec{},
				map[string]string{"tool": tool, "time": "1s", "size": "1KB"}), "http.time.p50", "http.time.p99", "http.time.mean")
		})
	}
}

// A server that ends, and one whose port is taken, say so.
func TestServerThatEnds(t *testing.T) {
	l, err := net.Listen("tcp4", ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	port := strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	s := measure(t, localtest.Native(t), bench.Spec{}, map[string]string{"port": port})[0]
	if s.Outcome != bench.Failed || !strings.Contains(s.Reason, "address already in use") {
		t.Errorf("%s: %s", s.Outcome, s.Reason)
	}
	needProgram(t, "/usr/sbin/nginx")
	s = measure(t, localtest.Native(t), bench.Spec{}, map[string]string{"port": port, "server": "nginx"})[0]
	if s.Outcome != bench.Failed || !strings.Contains(s.Reason, "server: ") {
		t.Errorf("%s: %s", s.Outcome, s.Reason)
	}
}

// What a cell needs lies in the run's directory, which is found after a run that was
// killed, and is gone with the cell.
func TestFilesAreTheRuns(t *testing.T) {
	dir, elsewhere := t.TempDir(), t.TempDir()
	t.Setenv("TMPDIR", elsewhere)
	w, e := workload(t), localtest.Native(t)
	task := workloadtest.Task(w, e, bench.Spec{}, "size", "1KB")
	task.Client, task.Dir = e, dir
	f, err := w.(bench.Fixturer).Setup(t.Context(), task)
	if err != nil {
		t.Fatal(err)
	}
	during := [2]int{count(t, dir), count(t, elsewhere)}
	if err := f.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	if after := [2]int{count(t, dir), count(t, elsewhere)}; during != [2]int{1, 0} || after != [2]int{} {
		t.Errorf("the run's and other directories have %v entries, and afterwards %v", during, after)
	}
}

func count(t *testing.T, dir string) int {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// offered sets cells up, each with options of its own, and returns what is due per
// second in a trial of each; made is how many containers it took to set them up.
func offered(t *testing.T, earlier float64, cells ...map[string]string) (rates []float64, made int) {
	t.Helper()
	w, e := workload(t), &countingEngine{Engine: localtest.Native(t)}
	var tasks []bench.Task
	common := new(bench.Common)
	for _, given := range cells {
		task := workloadtest.Task(w, e, bench.Spec{Network: "host"})
		task.Client, task.Dir = localtest.Native(t), t.TempDir()
		maps.Copy(task.Params, params(t, map[string]string{"rate": "50%", "connections": "4", "time": "500ms"}))
		maps.Copy(task.Params, given)
		task.Common = common
		task.EarlierValue = func(metric string) (float64, bool) { return earlier, earlier > 0 && metric == http.Offered }
		if err := w.(bench.Calibrator).Calibrate(t.Context(), task); err != nil {
			t.Fatal(err)
		}
		f, err := w.(bench.Fixturer).Setup(t.Context(), task)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := f.Remove(context.Background()); err != nil {
				t.Error(err)
			}
		})
		task.Fixture = f
		tasks = append(tasks, task)
	}
	made = e.made
	for _, task := range tasks {
		m := workloadtest.NewMeter(t)
		if err := errors.Join(task.Fixture.Reset(t.Context()), w.Run(t.Context(), task, m)); err != nil {
			t.Fatal(err)
		}
		rates = append(rates, m.Values[http.Offered])
	}
	return rates, made
}

// Cells that are compared get the same rate, also where it is an option that is compared
// and one of them can do much less: 1 MB takes longer than 1 KB.
func TestOneRateForAllThatIsCompared(t *testing.T) {
	if rates, _ := offered(t, 0, map[string]string{"size": "1KB"},
		map[string]string{"size": "1MB"}); rates[0] != rates[1] {
		t.Errorf("%v requests are due per second; want the same twice", rates)
	}
}

// A run that is resumed keeps its rate, and does not look for it.
func TestResumedRunKeepsItsRate(t *testing.T) {
	rates, made := offered(t, 123, map[string]string{}, map[string]string{"size": "1MB"})
	if rates[0] != 123 || rates[1] != 123 || made != 0 {
		t.Errorf("%v requests are due per second, after %d containers to find that out; want 123 and none", rates, made)
	}
}

// engineWithoutAddress is an engine without addresses.
type engineWithoutAddress struct{ bench.Engine }

func TestCheck(t *testing.T) {
	e := localtest.Native(t) // which is built first
	t.Setenv("PATH", t.TempDir())
	for name, test := range map[string]struct {
		engine bench.Engine
		spec   bench.Spec
		given  map[string]string
		says   string // "" = it can run
	}{
		"tare's own":   {e, bench.Spec{}, nil, ""},
		"nginx":        {e, bench.Spec{Image: "host:nginx"}, nil, ""},
		"no addresses": {engineWithoutAddress{e}, bench.Spec{}, nil, "does not tell the addresses"},
		"no network":   {e, bench.Spec{Network: "none"}, nil, "use network host or bridge"},
		"argv":         {e, bench.Spec{Argv: []string{"x"}}, nil, "leave argv out"},
		"own server":   {e, bench.Spec{Image: "host:caddy"}, nil, "use server=nginx"},
		"no ab":        {e, bench.Spec{}, map[string]string{"tool": "ab"}, "install package apache2-utils"},
		"no rate":      {e, bench.Spec{}, map[string]string{"tool": "ab", "rate": "5"}, "ab does not know rate"},
		"no TLS":       {e, bench.Spec{}, map[string]string{"tls": "yes"}, "use server=nginx"},
		"share of ab":  {e, bench.Spec{}, map[string]string{"tool": "ab", "rate": "70%"}, "tare's own client"},
		"ramp, share":  {e, bench.Spec{}, map[string]string{"ramp": "yes", "rate": "70%"}, "a ramp cannot start at"},
		"two ends":     {e, bench.Spec{}, map[string]string{"requests": "5", "rate": "5"}, "rate and requests"},
	} {
		given := map[string]string{}
		for _, p := range workload(t).Params() {
			given[p.Name] = p.Default
		}
		maps.Copy(given, test.given)
		err := workload(t).Check(t.Context(), bench.Task{Engine: test.engine, Spec: test.spec, Params: given})
		if test.says == "" && err != nil ||
			test.says != "" && (!errors.Is(err, bench.ErrUnsupported) || !strings.Contains(err.Error(), test.says)) {
			t.Errorf("%s: %v, want %q", name, err, test.says)
		}
	}
}

func TestParams(t *testing.T) {
	for _, p := range workload(t).Params() {
		if err := p.Valid(p.Default); err != nil {
			t.Errorf("the default of %s: %v", p.Name, err)
		}
		for _, bad := range []string{"x", "0%", "101%", "7.5%", "%", "-1", "1e99", "24h", "\x00"} {
			if p.Valid(bad) == nil {
				t.Errorf("%s takes %q", p.Name, bad)
			}
		}
	}
}

func TestMetrics(t *testing.T) {
	seen := map[string]bool{}
	for _, m := range workload(t).Metrics() {
		if seen[m.Name] || m.Title == "" || m.Doc == "" {
			t.Errorf("%s is declared twice, or says nothing", m.Name)
		}
		seen[m.Name] = true
	}
}
