package manual_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/tare-bench/tare/internal/cli/manual"
	"github.com/tare-bench/tare/internal/text/term"
)

// tree is a program with one command, which has all that a page can show.
func tree() (root, weigh *cobra.Command) {
	root = &cobra.Command{
		Use: "scale", Short: "Weigh things", Long: "Scale weighs things.", Run: func(*cobra.Command, []string) {},
	}
	root.PersistentFlags().Bool("json", false, "print JSON")
	weigh = &cobra.Command{
		Use: "weigh THING", Short: "Weigh a thing", Run: func(*cobra.Command, []string) {},
		Long: "Weigh puts a thing on the scale, and this first sentence is longer than a line of eighty\ncolumns.\n\n" +
			"    feather   1g  something so light that its description does not fit into the rest of a line\n    .hidden   " +
			"2g  begins with a point\n\nThe end's \\near.",
		Example: "  scale weigh feather",
	}
	f := weigh.Flags()
	f.StringP("unit", "u", "", "`unit` of the result, one of many units that there are in this world and beyond")
	f.String("an-extraordinarily-long-flag", "x", "a `value` that takes more than the column has")
	f.Bool("fast", false, "do not wait")
	f.Bool("secret", false, "not shown")
	f.Lookup("secret").Hidden = true
	root.AddCommand(weigh)
	manual.Arrange(weigh, manual.Group{Title: "How", Flags: []string{"unit", "fast", "no-such-flag"}})
	manual.SetDefault(weigh, "unit", "grams")
	manual.ArrangeCommands(root, manual.CommandGroup{Title: "Work", Commands: []string{"weigh", "no-such-command"}})
	manual.Append(root, manual.Section{Title: "Exit codes", Lines: []string{"0  done", "1  broken"}})
	return root, weigh
}

func TestHelp(t *testing.T) {
	root, weigh := tree()
	want := `Weigh puts a thing on the scale, and this first sentence is longer than a line
of eighty columns.

    feather   1g  something so light that its description does not fit into the
                  rest of a line
    .hidden   2g  begins with a point

The end's \near.

Usage:
  scale weigh THING [flags]

Examples:
  scale weigh feather

Flags:
      --an-extraordinarily-long-flag value
                                    a value that takes more than the column has
                                    (default x)

How:
  -u, --unit unit                   unit of the result, one of many units that
                                    there are in this world and beyond (default
                                    grams)
      --fast                        do not wait

Global flags:
  -h, --help                        help for weigh
      --json                        print JSON
`
	if diff := cmp.Diff(want, manual.Help(weigh)); diff != "" {
		t.Errorf("help of a command (-want +got):\n%s", diff)
	}
	for line := range strings.Lines(manual.Help(weigh)) {
		if term.Width(strings.TrimRight(line, "\n")) > manual.Columns {
			t.Errorf("longer than %d columns: %s", manual.Columns, line)
		}
	}
	want = `Scale weighs things.

Work:
  weigh  Weigh a thing

Global flags:
  -h, --help  help for scale
      --json  print JSON

Exit codes:
  0  done
  1  broken

scale COMMAND --help says more about a command.
`
	if diff := cmp.Diff(want, manual.Help(root)); diff != "" {
		t.Errorf("help of the root (-want +got):\n%s", diff)
	}
}

func TestMarkdown(t *testing.T) {
	root, weigh := tree()
	page := manual.Markdown(weigh)
	for _, want := range []string{
		"# scale weigh\n\nWeigh a thing\n\n",
		"columns.\n\n```\n    feather   1g  ",
		"begins with a point\n```\n\nThe end's \\near.\n",
		"## How\n\n```\n  -u, --unit unit ",
		"See also [scale](scale.md).\n",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}
	if strings.Contains(page, "secret") {
		t.Error("a hidden flag is shown")
	}
	if page := manual.Markdown(root); !strings.Contains(page, "## Work\n\n- [scale weigh](scale_weigh.md): "+
		"Weigh a thing\n") {
		t.Errorf("the root has no link to its command:\n%s", page)
	}
}

func TestMan(t *testing.T) {
	root, weigh := tree()
	page := manual.Man(weigh, "v1-2")
	for _, want := range []string{
		".TH \"SCALE-WEIGH\" 1 \"\" \"tare v1-2\" \"tare manual\"\n.SH NAME\nscale-weigh \\- Weigh a thing\n",
		".nf\n    feather   1g  ", "\n.fi\n.PP\nThe end\\(aqs \\enear.\n",
		".SH HOW\n.TP\n\\fB\\-u\\fR, \\fB\\-\\-unit\\fR \\fIunit\\fR\nunit of the result",
		".SH SEE ALSO\n.BR scale (1)\n",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}
	for line := range strings.Lines(page) {
		if strings.HasPrefix(line, ".hidden") {
			t.Errorf("a line of text is a request: %s", line)
		}
	}
	if page := manual.Man(root, "v1"); !strings.Contains(page, ".SH EXIT CODES\n.nf\n0  done\n1  broken\n.fi\n") {
		t.Errorf("what is appended is not there:\n%s", page)
	}
}
