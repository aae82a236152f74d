package plain

import "strings"

// Forges look for names and numbers after they have rendered, so a backslash before them is gone by then. Only
// something between the sign and what follows it stops them (github.com/github/cmark-gfm/issues/181).
const apart = "<!-- -->"

// A bracket alone is harmless, and intervals are easier to read without a backslash.
var inMarkdown = strings.NewReplacer(
	`\`, `\\`, "`", "\\`", "*", `\*`, "_", `\_`, "~", `\~`, "|", `\|`, "<", "&lt;", ">", "&gt;", "&", "&amp;",
	"](", `]\(`, "][", `]\[`, "]://", `]\:\//`, "]:", `]\:`, "://", `:\//`, "www.", `www\.`,
	"@", "@"+apart, "#", "#"+apart,
)

// Markdown returns a line of text as Markdown that shows just this text: without format, HTML, links, mentions of
// people, and references to issues. Hidden characters stay: see Line.
func Markdown(line string) string { return inMarkdown.Replace(line) }
