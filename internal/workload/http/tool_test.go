package http

import (
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func read(tb testing.TB, name string) []byte {
	tb.Helper()
	b, err := os.ReadFile("testdata/" + name)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

func questionOf(given ...string) toolRequest {
	q := toolRequest{
		params: map[string]string{}, server: netip.MustParseAddrPort("127.0.0.1:8080"), path: "/document", threads: 2,
	}
	for _, p := range (workload{}).Params() {
		q.params[p.Name] = p.Default
	}
	for i := 0; i < len(given); i += 2 {
		q.params[given[i]] = given[i+1]
	}
	return q
}

func near(a, b float64) bool { return a == b || max(a-b, b-a) < 1e-9*max(a, b) }

func TestAsk(t *testing.T) {
	for _, test := range []struct {
		tool  *tool
		given []string
		want  string
	}{
		{ab(), []string{"requests", "1000"}, "-q -r -c 16 -s 5 -e /dev/stdout -n 1000 -k http://127.0.0.1:8080/document"},
		{ab(), []string{"time", "1500ms", "keepalive", "no"}, "-q -r -c 16 -s 5 -e /dev/stdout -t 2 -n 20000000 http://127.0.0.1:8080/document"},
		{wrk(), nil, "--latency -t 2 -c 16 -d 2s --timeout 5s http://127.0.0.1:8080/document"},
		{wrk(), []string{"connections", "1", "keepalive", "no"}, "--latency -t 1 -c 1 -d 2s --timeout 5s -H Connection: close http://127.0.0.1:8080/document"},
	} {
		if got := strings.Join(test.tool.argv(questionOf(test.given...)), " "); got != test.want {
			t.Errorf("%s %v:\n%s, want\n%s", test.tool.Name, test.given, got, test.want)
		}
	}
}

func TestParse(t *testing.T) {
	for name, test := range map[string]struct {
		tool *tool
		want map[string]float64
	}{
		"ab-2.3.txt": {ab(), map[string]float64{
			Rate: 2000 / 0.143, "http.transfer": 2480000 / 0.143, Elapsed: 0.143, Bytes: 2480000, Document: 1000,
			Requests: 2000, Failed: 0, Failed + ".status": 0, Failed + ".connect": 0, Failed + ".read": 0, Failed + ".length": 0,
			Time + ".mean": 1.144 / 1e3,
			Time + ".min":  0.000215, Time + ".p50": 0.000854, Time + ".p90": 0.001787, Time + ".p99": 0.004563,
		}},
		"wrk-4.1.txt": {wrk(), map[string]float64{
			Rate: 16284.75, "http.transfer": 19.46 * (1 << 20) / 1.01, Elapsed: 1.01, Bytes: 19.46 * (1 << 20),
			Requests: 16453, Failed: 0, Failed + ".status": 0,
			Time + ".mean": 0.0019, Time + ".sd": 0.00397, Time + ".max": 0.03736,
			Time + ".p50": 0.000701, Time + ".p90": 0.00375, Time + ".p99": 0.02443,
		}},
		// ab counts the same answers as failed and as bad ones.
		"ab-2.3-half.txt": {ab(), map[string]float64{
			Rate: 500 / 1.211, "http.transfer": 173000 / 1.211, Elapsed: 1.211, Bytes: 173000, Document: 100,
			Requests: 1000, Failed: 500, Failed + ".status": 500, Failed + ".connect": 0,
			Failed + ".read": 0, Failed + ".length": 0,
			Time + ".mean": 0.001211, Time + ".min": 0.000431, Time + ".p50": 0.000745,
			Time + ".p90": 0.002517, Time + ".p99": 0.004811,
		}},
	} {
		r, err := test.tool.read(read(t, name))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(test.want, r.Values, cmp.Comparer(near)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// Answers with a bad status are no good ones, whatever a tool calls them.
func TestNotOneGoodAnswer(t *testing.T) {
	for name, tool := range map[string]*tool{"ab-2.3-status.txt": ab(), "wrk-4.1-status.txt": wrk()} {
		if _, err := tool.read(read(t, name)); err == nil ||
			!strings.Contains(err.Error(), "got a good answer") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// An output that is not what is known is an error, and nothing of it is taken.
func TestForeignOutput(t *testing.T) {
	for _, tool := range tools() {
		for text, says := range map[string]string{
			"": "perhaps tare does not know this version", "all is well\n": "perhaps tare does not know this version",
			"{}": "perhaps tare does not know this version", "null": "perhaps tare does not know this version",
		} {
			if _, err := tool.read([]byte(text)); err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("%s %q: %v does not say %q", tool.Name, text, err, says)
			}
		}
	}
}

// Whatever a tool prints, there is an error or a report that can be sent.
func FuzzTools(f *testing.F) {
	entries, err := os.ReadDir("testdata")
	if err != nil {
		f.Fatal(err)
	}
	for _, e := range entries {
		if !e.IsDir() {
			f.Add(read(f, e.Name()))
		}
	}
	declared := map[string]bool{}
	for _, m := range (workload{}).Metrics() {
		declared[m.Name] = true
	}
	f.Fuzz(func(t *testing.T, output []byte) {
		for _, tool := range tools() {
			r, err := tool.read(output)
			if err != nil {
				continue
			}
			if _, err := r.Line(); err != nil {
				t.Error(err)
			}
			for name := range r.Values {
				if !declared[name] {
					t.Errorf("%s: %s is not declared", tool.Name, name)
				}
			}
		}
	})
}

// An option that a tool does not know is refused, and not passed over.
func TestUnknownOptions(t *testing.T) {
	for tool, given := range map[*tool][]string{ab(): {"rate", "100"}, wrk(): {"requests", "5"}} {
		if err := (workload{}).CheckParams(questionOf("tool", tool.Name).params); err != nil {
			t.Errorf("%s with its defaults: %v", tool.Name, err)
		}
		err := workload{}.CheckParams(questionOf(append(given, "tool", tool.Name)...).params)
		if err == nil || !strings.Contains(err.Error(), tool.Name+" does not know "+given[0]) {
			t.Errorf("%s with %s: %v", tool.Name, given[0], err)
		}
	}
	err := workload{}.CheckParams(questionOf("tool", "siege").params)
	if err == nil || err.Error() != `tool "siege": tare knows only ab and wrk` {
		t.Errorf("a tool that there is not: %v", err)
	}
}
