package pgbenchtools_test

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tare-bench/tare/internal/experiment/pgbenchtools"
	"github.com/tare-bench/tare/internal/experiment/yamldoc"
)

var update = flag.Bool("update", false, "rewrite the expected experiments")

// Each config becomes the experiment beside it.
func TestConvert(t *testing.T) {
	files, err := filepath.Glob("testdata/*.config")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d configs, error %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !pgbenchtools.Recognise(data) {
				t.Error("it is not recognised")
			}
			e, _, err := pgbenchtools.Convert(filepath.Base(file), data)
			if err != nil {
				t.Fatal(err)
			}
			golden := strings.TrimSuffix(file, ".config") + ".yaml"
			if *update {
				if err := os.WriteFile(golden, e.YAML(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(string(want), string(e.YAML())); d != "" {
				t.Error(d)
			}
			if _, _, err := yamldoc.Read("x", e.YAML(), yamldoc.Hints{}); err != nil {
				t.Error(err)
			}
		})
	}
}

// What tare cannot do is refused with the reason, all of it at once.
func TestMistakes(t *testing.T) {
	const grid = "SCALES=\"1 10\"\nSETCLIENTS=\"1 2\"\n"
	for text, want := range map[string][]string{
		grid + "TESTHOST=db.example.org\n": {
			`c:3:1: TESTHOST is the server "db.example.org"; tare measures servers that it starts itself`,
		},
		grid + "TESTHOST=`hostname`\nTESTPORT=6432\n": {
			"c:3:1: TESTHOST is computed by the shell; ", "c:4:1: TESTPORT is the port of a server that is there; ",
		},
		grid + "TESTDB=postgres://h/d\n":        {"c:3:1: TESTDB is the address of a server; "},
		grid + "SCRIPT=insert-size\n":           {`c:3:1: the script "insert-size" has no counterpart among the loads of tare`},
		grid + "SCRIPT=\"$X\"\n":                {"c:3:1: SCRIPT is computed by the shell, and tare executes nothing of the file"},
		grid + "RUNTIME=\"\"\nTOTTRANS=1000\n":  {"c:3:1: the length of a test is a number of transactions, TOTTRANS; "},
		grid + "RUNTIME=0\nSETTIMES=x\n":        {"c:3:1: RUNTIME is \"0\"; it must be", "c:4:1: SETTIMES is \"x\"; it must be"},
		grid + "TESTRESET=./drop\n":             {`c:3:1: TESTRESET is "./drop", which is not an absolute path`},
		grid + "TESTRESET='/opt/re\x01set a'\n": {`c:3:1: TESTRESET is "/opt/re\x01set a", which has a character that cannot be shown`},
		grid + "TESTRESET=/opt/\xff\n":          {`c:3:1: TESTRESET is "/opt/\xff", which has a character that cannot be shown`},
		grid + "SETRATES=\"100 1000001\"\n":     {`c:3:1: SETRATES has "1000001"; each must be a whole number from 1 to 1000000`},
		grid + "CLIENTRATES=\"9 500001\"\n": {
			"c:3:1: CLIENTRATES has 500001, which with 2 clients is a rate of 1000002; tare sends at most 1000000 transactions",
		},
		grid + "CLIENTRATES=500000\n":           nil,
		"SCALES=\"1 none\"\nSETCLIENTS=\"\"\n":  {`c:1:1: SCALES has "none"; each must be a whole number from 1 to 10000`},
		"  SCALES=\"\"\nSETCLIENTS=\"1\"\n":     {"c:1:3: SCALES is empty"},
		"SCALES=\"\"\nSETCLIENTS=\"\"\n":        {"c:1:1: SCALES is empty", "c:2:1: SETCLIENTS is empty"},
		"SCALES=\"1\nSETCLIENTS=1\n":            {"c:1:1: SCALES is computed by the shell"},
		"SCALES=1\nSETCLIENTS=\"1 2\" SETTIMES": nil,
	} {
		_, _, err := pgbenchtools.Convert("c", []byte(text))
		var wrong *yamldoc.Error
		if !errors.As(err, &wrong) {
			if len(want) > 0 || err != nil {
				t.Errorf("%q: error %v", text, err)
			}
			continue
		}
		if len(wrong.Problems) != len(want) {
			t.Errorf("%q: %v, want %d problems", text, err, len(want))
			continue
		}
		for i, p := range wrong.Problems {
			if !strings.HasPrefix(p.String(), want[i]) {
				t.Errorf("%q: %s, want %s", text, p, want[i])
			}
		}
	}
}

func TestRecognise(t *testing.T) {
	for text, want := range map[string]bool{
		"SCALES=1\nSETCLIENTS=2\n": true, "export SCALES=1\n  SETCLIENTS=2\n": true, "SCALES=1\n": false, "workload: cpu\n": false, "": false,
		"#SCALES=1\n#SETCLIENTS=2\n": false, "drivers: []\ncommands: []\n": false,
	} {
		if got := pgbenchtools.Recognise([]byte(text)); got != want {
			t.Errorf("Recognise(%q) = %v", text, got)
		}
	}
}

func FuzzConvert(f *testing.F) {
	for _, name := range []string{"usual", "rates"} {
		b, err := os.ReadFile("testdata/" + name + ".config")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		e, _, err := pgbenchtools.Convert("f", data)
		if err != nil {
			return
		}
		if _, _, err := yamldoc.Read("x", e.YAML(), yamldoc.Hints{}); err != nil {
			t.Errorf("%v\n%s", err, e.YAML())
		}
	})
}
