package csv_test

import (
	"testing"

	"github.com/tare-bench/tare/internal/foreign/csv"
	"github.com/tare-bench/tare/internal/foreign/foreigntest"
)

func TestRead(t *testing.T) { foreigntest.Golden(t, csv.Source(), "testdata/*.csv") }

func FuzzRead(f *testing.F) {
	foreigntest.Fuzz(f, csv.Source(), "testdata/*.csv", "metric,value,trial,failed\na,1,x,\na,-1e299,,no\nb,0,x,\n",
		"| metric | value | unit |\n| --- | --- | --- |\n| a | 1 | GiB/s |\n")
}

func TestWrongFiles(t *testing.T) {
	const head = "metric,value,unit,better,trial\n"
	foreigntest.Refused(t, csv.Source(), "docs/import.md has the columns", map[string]string{
		"":                      "f: there is no table of values in it",
		"a,b\n1,2\n":            "f: there is no table of values in it",
		"metric,unit\na,s\n":    "f:1: the table has no column value",
		"value,unit\n1,s\n":     "f:1: the table has no column metric",
		"metric,value,metric\n": `f:1: the table has two columns "metric"`,
		head + ",1,s,lower,\n":  "f:2: the row has no metric",
		head + "a,,s,lower,\n":  "f:2: the row has neither a value nor a reason in the column failed",
		head + "a,x,s,lower,\n": `f:2: "x" is no number`,
		head + "a,NaN,,,\n":     `f:2: "NaN" is no number`,
		head + "a,1,furlong,,\n": `f:2: the unit "furlong" is unknown; tare knows 1, %, s, ms, us, ns, min, B, kB, MB, GB, KiB, MiB, GiB, 1/s, B/s, ` +
			"kB/s, MB/s, GB/s, KiB/s, MiB/s, GiB/s, bit/s, kbit/s, Mbit/s, Gbit/s",
		head + "a,1,s,less,\n":                `f:2: better is "less"; it must be lower, higher or neither`,
		head + "a,1,s,lower,\na,1,B,lower,\n": `f:3: "a" is in "B" and lower is better; in line 2 it is in "s" and lower is better`,
		head + "a,1,,,x\na,1,,,x\n":           `f:3: the trial "x" has two values of "a"`,
	})
}

// The table itself has to be one.
func TestDamagedTables(t *testing.T) {
	foreigntest.Refused(t, csv.Source(), "as CSV with a header", map[string]string{
		"metric,value\na,1,2\n":          "f:2: wrong number of fields",
		"metric,value,began\na,1,noon\n": `f:2: "noon" in column began is no time such as 2026-01-31 12:00:00`,
	})
}
