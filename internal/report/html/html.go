// Package html renders a report as one page: no script, nothing from a network, and styles
// of which the page itself says the hash. It is legible without them, on paper, by keyboard
// and to a screen reader.
package html

import (
	"bufio"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"strings"

	"github.com/tare-bench/tare/internal/report"
	"github.com/tare-bench/tare/internal/report/figure"
)

//go:embed page.tmpl
var pageText string

//go:embed page.css
var pageStyle string

// page is the template of all pages.
var page = template.Must(template.New("page").Funcs(template.FuncMap{
	"join":    func(parts []string) string { return strings.Join(nonEmpty(parts), " · ") },
	"commas":  func(parts []string) string { return strings.Join(parts, ", ") },
	"phrases": phrases,
	"titled":  func(title string, lines []report.Line) titledLines { return titledLines{title, lines} },
}).Parse(pageText))

// phrases takes a finding apart where a line may end: before its interval, and after a comma.
func phrases(text string) []string {
	return strings.Split(strings.NewReplacer(" (", "\n(", ", ", ",\n").Replace(text), "\n")
}

type titledLines struct {
	Title string
	Lines []report.Line
}

func nonEmpty(parts []string) (kept []string) {
	for _, p := range parts {
		if p != "" {
			kept = append(kept, p)
		}
	}
	return kept
}

// Write renders a report as a page.
func Write(w io.Writer, d *report.Document) error {
	b := bufio.NewWriter(w)
	if err := page.Execute(b, newView(d)); err != nil {
		return fmt.Errorf("write a page: %w", err)
	}
	return b.Flush()
}

// WriteFigure writes one figure of a report as an SVG file.
func WriteFigure(w io.Writer, d *report.Document, name string) error {
	for _, f := range figure.All(d) {
		if f.Name == name {
			_, err := io.WriteString(w, f.SVG())
			return err
		}
	}
	return fmt.Errorf("no figure %q in this report", name)
}

// Figures lists the names of a report's figures.
func Figures(d *report.Document) (names []string) {
	for _, f := range figure.All(d) {
		names = append(names, f.Name)
	}
	return names
}

// Style is everything in a page's style element.
func Style() string { return pageStyle + figure.Style() }

// StyleHash is what the policy of a page allows: styles of this hash.
func StyleHash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}
