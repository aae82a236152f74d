package postgres

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tare-bench/tare/internal/load"
)

// The message that executes a statement, byte for byte: Bind, Execute, Sync.
func TestStatement(t *testing.T) {
	one := scriptOf(Update).statements[0]
	got := one.appendTo([]byte("before"), &[parameters]int64{aid: 77, delta: -5})
	want := "before" +
		"B\x00\x00\x00\x27\x00update_accounts\x00\x00\x00\x00\x02\x00\x00\x00\x02-5\x00\x00\x00\x0277\x00\x00" +
		"E\x00\x00\x00\x09\x00\x00\x00\x00\x00" + "S\x00\x00\x00\x04"
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Keys are drawn from the whole range, and a seed repeats them.
func TestDraw(t *testing.T) {
	const draws = 200_000
	r := random(7)
	var least, most, sum, first [parameters]int64
	for i := range draws {
		var v [parameters]int64
		r.draw(2, &v)
		if i == 0 {
			least, most, first = v, v, v
		}
		for p := range v {
			least[p], most[p], sum[p] = min(least[p], v[p]), max(most[p], v[p]), sum[p]+v[p]
		}
	}
	if least[aid] < 1 || least[aid] > 20 || most[aid] > 200_000 || most[aid] < 199_980 ||
		least[bid] != 1 || most[bid] != 2 || least[tid] != 1 || most[tid] != 20 ||
		least[delta] != -5000 || most[delta] != 5000 {
		t.Errorf("from %v to %v", least, most)
	}
	if mean := float64(sum[aid]) / draws; mean < 99_000 || mean > 101_000 {
		t.Errorf("mean aid %v, want about 100000", mean)
	}
	var again [parameters]int64
	r = random(7)
	if r.draw(2, &again); again != first {
		t.Errorf("%v, then %v with the same seed", first, again)
	}
}

// The example of RFC 7677, section 3, whose messages name a user and fix the nonce.
func TestScram(t *testing.T) {
	s := newScram("pencil", nil)
	s.nonce = "rOprNGfwEbeRWgbNEkqO"
	if got, want := s.first(), "n,,n=,r=rOprNGfwEbeRWgbNEkqO"; got != want {
		t.Errorf("first %q, want %q", got, want)
	}
	s.signed = "n=user,r=rOprNGfwEbeRWgbNEkqO"
	const nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
	if err := s.verify("v=x"); err == nil {
		t.Error("verified before this client has sent its proof")
	}
	got, err := s.final("r=" + nonce + ",s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096")
	want := "c=biws,r=" + nonce + ",p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
	if got != want || err != nil {
		t.Errorf("final %q, %v, want %q", got, err, want)
	}
	if err := s.verify("v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G0="); !errors.Is(err, ErrServerProof) {
		t.Errorf("a wrong proof: %v", err)
	}
	if err := s.verify("v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{
		"", "r=x,s=AA==,i=4096", "r=" + nonce, "r=" + nonce + ",s=AA==,i=0", "r=" + nonce + ",s=AA==,i=99999999",
		"r=" + nonce + ",s=?,i=1", "r=rOprNGfwEbeRWgbNEkqO,s=AA==,i=4096",
	} {
		s := newScram("pencil", nil)
		s.nonce = "rOprNGfwEbeRWgbNEkqO"
		s.first()
		if _, err := s.final(bad); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

// auth is an authentication message.
func auth(method byte, data string) message {
	return message{fromAuthentication, []byte("\x00\x00\x00" + string(method) + data)}
}

// A server cannot skip its proof, nor a step.
func TestLoginOrder(t *testing.T) {
	for name, messages := range map[string][]message{
		"ready without being accepted": {{fromReady, []byte("I")}},
		"accepted without a proof":     {auth(authSASL, scramName+"\x00\x00"), auth(authOK, "")},
		"SASL from its middle":         {auth(authSASLContinue, "r=x,s=AA==,i=1")},
		"SASL from its end":            {auth(authSASLFinal, "v=x")},
		"SASL twice":                   {auth(authSASL, scramName+"\x00\x00"), auth(authSASL, scramName+"\x00\x00")},
		"another mechanism":            {auth(authSASL, "SCRAM-SHA-256-PLUS\x00\x00")},
		"another method":               {auth(7, "")},
		"accepted twice":               {auth(authOK, ""), auth(authOK, "")},
		"a short salt":                 {auth(authMD5, "abc")},
		"no method":                    {{fromAuthentication, []byte("\x00")}},
		"a row":                        {auth(authOK, ""), {fromDataRow, nil}},
		"an error without code":        {{fromError, []byte("SFATAL\x00Mno\x00\x00")}},
		"an error without end":         {{fromError, []byte("SFATAL")}},
	} {
		l := login{user: "u", password: "pw"}
		var err error
		for _, m := range messages {
			if err != nil {
				t.Errorf("%s: an early %v", name, err)
			}
			_, _, err = l.answer(m)
		}
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestSplit(t *testing.T) {
	for text, want := range map[string]string{
		"":                                 "part",
		"Z\x00\x00\x00":                    "part",
		"Z\x00\x00\x00\x05":                "part",
		"Z\x00\x00\x00\x05I":               "Z I",
		"Z\x00\x00\x00\x05Imore":           "Z I",
		"1\x00\x00\x00\x04":                "1 ",
		"1\x00\x00\x00\x03":                "error",
		"1\x00\x00\x00\x64":                "error",
		"1\xff\xff\xff\xff":                "error",
		"HTTP/1.1 400 Bad Request\r\n\r\n": "error",
	} {
		m, length, err := split([]byte(text), 100)
		got := fmt.Sprintf("%c %s", m.kind, m.body)
		var protocol *ProtocolError
		switch {
		case errors.As(err, &protocol):
			got = "error"
		case length == 0:
			got = "part"
		}
		if got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

func TestParseError(t *testing.T) {
	got, err := parseError([]byte("SFEHLER\x00VERROR\x00C40001\x00Mno\x00Dd\xff\x00Hh\x00Fignored\x00\x00"))
	want := &ServerError{Severity: "ERROR", Code: CodeSerialization, Message: "no", Detail: "d?", Hint: "h"}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if got, err := parseError([]byte("SFATAL\x00C57P01\x00M" + strings.Repeat("x", 5000) + "\x00\x00")); err != nil ||
		!got.ends() || len(got.Message) != maxErrorField {
		t.Errorf("%+v, %v", got, err)
	}
}

// Whatever a server sends, it is a message, a part of one, or an error.
func FuzzMessages(f *testing.F) {
	f.Add([]byte("R\x00\x00\x00\x08\x00\x00\x00\x00S\x00\x00\x00\x07a\x00b\x00Z\x00\x00\x00\x05I"))
	f.Add([]byte("R\x00\x00\x00\x17\x00\x00\x00\x0aSCRAM-SHA-256\x00\x00R\x00\x00\x00\x0c\x00\x00\x00\x0bxxxx"))
	f.Add([]byte("E\x00\x00\x00\x16SERROR\x00C22012\x00M\x00\x00"))
	f.Add([]byte("D\x00\x00\x00\x0e\x00\x02\xff\xff\xff\xff\x00\x00\x00\x00C\x00\x00\x00\x0dSELECT 1\x00"))
	f.Fuzz(func(t *testing.T, p []byte) {
		l := login{user: "u", password: "pw"}
		for {
			m, length, err := split(p, 1000)
			if length > len(p) || length > 1000 {
				t.Fatalf("a message of %d bytes out of %d", length, len(p))
			}
			if err != nil || length == 0 {
				return
			}
			p = p[length:]
			if e, err := parseError(m.body); err == nil && len(e.Code) != 5 {
				t.Errorf("%+v", e)
			}
			total := 0
			if row(m.body).fields(func(value []byte, _ bool) { total += 4 + len(value) }) == nil && total+2 != len(m.body) {
				t.Errorf("fields of %d bytes in a row of %d", total, len(m.body))
			}
			_, _ = copied(m.body)
			_, _ = m.state()
			if _, ready, err := l.answer(m); ready && (err != nil || !l.passed) {
				t.Errorf("ready: %v", err)
			}
		}
	})
}

// Transactions belong to the second in which they ended; what ended after the last whole second is in
// none.
func TestSeconds(t *testing.T) {
	p := &plan{script: scriptOf(SelectOnly), time: 3500 * time.Millisecond}
	all := newTally(p)
	for _, thread := range [][]time.Duration{
		{0, 999 * time.Millisecond, time.Second}, {100 * time.Millisecond, 3400 * time.Millisecond},
	} {
		one := newTally(p)
		for i, at := range thread {
			one.endedAt(at, time.Duration(i+1)*time.Millisecond)
		}
		all.add(&one)
	}
	r := load.NewReport(Name)
	(&outcome{plan: p, round: &round{tally: all}}).series(r)
	want := map[string][]float64{
		"per_second.rate": {3, 1, 0}, "per_second.time.mean": {0.0013333, 0.003, 0}, "per_second.time.max": {0.002, 0.003, 0},
		"per_second.time.p50": {0.0010076, 0.0029819, 0}, "per_second.time.p99": {0, 0, 0},
	}
	if diff := cmp.Diff(want, r.Series); diff != "" {
		t.Errorf("series (-want +got):\n%s", diff)
	}
	if got := (&plan{time: 2900 * time.Millisecond}).seconds(); got != 0 {
		t.Errorf("too short: %d seconds", got)
	}
}

// Percentiles of a second are within two percent, and there is none that too few transactions tell of.
func TestSecondPercentiles(t *testing.T) {
	for _, unit := range []time.Duration{1, time.Microsecond, 77 * time.Microsecond, time.Millisecond} {
		all := newTally(&plan{script: scriptOf(SelectOnly), time: 3 * time.Second})
		for i := range 1000 {
			if i == 999 && all.seconds[0].percentile(99) != 0 {
				t.Errorf("the 99th percentile of 999 is %v", all.seconds[0].percentile(99))
			}
			all.endedAt(0, time.Duration(i+1)*unit)
		}
		for p, want := range map[int64]time.Duration{50: 500 * unit, 99: 990 * unit} {
			if got := all.seconds[0].percentile(p); math.Abs(got/want.Seconds()-1) > 0.02 {
				t.Errorf("percentile %d of 1 to 1000 times %v is %v s", p, unit, got)
			}
		}
	}
	for _, d := range []time.Duration{-1, 0, 31, 32, 63, 64, time.Second, time.Hour} {
		if i := place(d); i < 0 || i >= len(sketch{}) {
			t.Errorf("the place of %v is %d", d, i)
		}
	}
}

// A rate counts as missed if transactions that were due early enough did not end well: not because the last
// ones were still under way.
func TestRateMissed(t *testing.T) {
	for timely, want := range map[int64]bool{294: false, 292: false, 280: true} {
		p := &plan{script: scriptOf(SelectOnly), rate: 1000, time: 300 * time.Millisecond}
		all := newTally(p)
		all.time.AddMany(6*time.Millisecond, 300)
		all.timely, all.good = timely, 300
		r := load.NewReport(Name)
		(&outcome{plan: p, round: &round{tally: all}}).notes(r)
		if got := slices.Contains(r.Notes, NoteRateMissed); got != want {
			t.Errorf("%d of 300 transactions in time: notes %v", timely, r.Notes)
		}
	}
}
