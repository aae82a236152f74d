package figure

import (
	"fmt"
	"html"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/tare-bench/tare/internal/text/plain"
)

// A canvas collects the elements of one panel. Colours are attributes and classes: a page
// whose styles are blocked is legible, and one with styles can be dark.
type canvas struct{ strings.Builder }

// ink is how something is drawn: the name of a class, which has a colour for light and dark.
type ink string

const (
	faint  ink = "faint" // grid lines
	frame  ink = "frame" // axes
	none   ink = "none"  // where no difference is
	zone   ink = "zone"  // what is too small to matter
	muted  ink = "muted" // single values, notes
	words  ink = "words" // text
	good   ink = "good"
	bad    ink = "bad"
	unsure ink = "unsure"
	paper  ink = "paper" // behind a figure that is a file
)

// colors are those on white, for readers without styles. Those of lines and dots have a contrast
// of 3 : 1 at least, those of text 4.5 : 1.
func (i ink) color() string {
	switch i {
	case paper:
		return "#ffffff"
	case faint:
		return "#e3e6ea"
	case zone:
		return "#dfe9f3"
	case frame, muted:
		return "#5f6872"
	case none:
		return "#30363d"
	case good:
		return "#00664d"
	case bad:
		return "#a8320f"
	case unsure:
		return "#765400"
	}
	for n, c := range lineColors {
		if i == lineInk(n) {
			return c
		}
	}
	return "#1b1f24"
}

// lineColors tell cells apart, together with dashes and names at the lines' ends. They follow
// Okabe and Ito, darkened to be seen on white.
var lineColors = [...]string{"#1b1f24", "#0072b2", "#b34700", "#00795a", "#97437a", "#7a6000", "#2f6f9f", "#5f6872"}

// lineInk is the colour of the n-th cell.
func lineInk(n int) ink { return ink("line" + strconv.Itoa(n%len(lineColors))) }

// dashes are the lines of the n-th cell, so that they differ without colour too.
func dashes(n int) string {
	return [...]string{"", "6 3", "2 2", "8 3 2 3", "4 2", "1 2", "10 4", "6 2 2 2"}[n%8]
}

// px writes a position with one decimal.
func px(v float64) string {
	return strings.TrimSuffix(strconv.FormatFloat(v, 'f', 1, 64), ".0")
}

func (c *canvas) line(x1, y1, x2, y2 float64, i ink, width float64) {
	fmt.Fprintf(c, `<line x1="%s" y1="%s" x2="%s" y2="%s" class="%s" stroke="%s" stroke-width="%s"/>`,
		px(x1), px(y1), px(x2), px(y2), i, i.color(), px(width))
}

// grid draws the lines behind a picture.
func (c *canvas) grid(d string) {
	if d != "" {
		fmt.Fprintf(c, `<path class="%s" stroke="%s" d="%s"/>`, faint, faint.color(), d)
	}
}

func (c *canvas) rect(x, y, w, h float64, i ink) {
	fmt.Fprintf(c, `<rect x="%s" y="%s" width="%s" height="%s" class="fill %s" fill="%s"/>`,
		px(x), px(y), px(max(w, 0)), px(h), i, i.color())
}

func (c *canvas) dot(x, y, r float64, i ink) {
	fmt.Fprintf(c, `<circle cx="%s" cy="%s" r="%s" class="fill %s" fill="%s"/>`, px(x), px(y), px(r), i, i.color())
}

// dots draws many points as one path: each is a line of no length with round ends.
func (c *canvas) dots(points []point, size float64, i ink) {
	if len(points) == 0 {
		return
	}
	fmt.Fprintf(c, `<path class="%s" stroke="%s" stroke-width="%s" stroke-linecap="round" fill="none" d="`,
		i, i.color(), px(size))
	c.WriteString(path(points, 'm', "h0") + `"/>`)
}

// polyline joins points.
func (c *canvas) polyline(points []point, i ink, width float64, dash string) {
	if len(points) < 2 {
		return
	}
	fmt.Fprintf(c, `<path class="%s" stroke="%s" stroke-width="%s" fill="none" stroke-linejoin="round"`,
		i, i.color(), px(width))
	if dash != "" {
		fmt.Fprintf(c, ` stroke-dasharray="%s"`, dash)
	}
	c.WriteString(` d="` + path(points, 'l', "") + `"/>`)
}

// band fills what lies between two lines.
func (c *canvas) band(upper, lower []point, i ink) {
	if len(upper) < 2 {
		return
	}
	around := slices.Clone(lower)
	slices.Reverse(around)
	fmt.Fprintf(c, `<path class="fill %s" fill="%s" fill-opacity=".15" d="%sZ"/>`,
		i, i.color(), path(append(slices.Clone(upper), around...), 'l', ""))
}

// path moves to the first point, and from point to point by a command. What comes after each point
// is drawn from there. Steps are relative and in tenths, since most of a page is paths.
func path(points []point, command byte, after string) string {
	var b strings.Builder
	x, y := 0, 0
	for n, p := range points {
		toX, toY := int(math.Round(p.x*10)), int(math.Round(p.y*10))
		switch {
		case n == 0:
			b.WriteByte('M')
		case n == 1 || after != "":
			b.WriteByte(command)
		}
		b.WriteString(tenths(toX-x, n > 1 && after == "") + tenths(toY-y, true) + after)
		x, y = toX, toY
	}
	return b.String()
}

// tenths writes n/10 as short as it can be, with a separator before it if it needs one.
func tenths(n int, separate bool) string {
	s := px(float64(n) / 10)
	if rest, ok := strings.CutPrefix(s, "0."); ok {
		s = "." + rest
	} else if rest, ok := strings.CutPrefix(s, "-0."); ok {
		s = "-." + rest
	}
	if separate && !strings.HasPrefix(s, "-") {
		return " " + s
	}
	return s
}

// value draws a value of the n-th cell with its interval, where there is one, and says where it is.
func (c *canvas) value(x float64, y *axis, v float64, low, high *float64, n int) point {
	at := point{x, y.at(v)}
	if low != nil && high != nil {
		c.line(x, y.at(*low), x, y.at(*high), lineInk(n), 1.5)
	}
	c.dot(at.x, at.y, 2.5, lineInk(n))
	return at
}

// beside is how far the n-th of some cells stands from its place, so that their intervals can be told apart.
func beside(n, cells int) float64 {
	return (float64(n) - float64(cells-1)/2) * math.Min(3, 16/float64(cells))
}

// cross marks what failed.
func (c *canvas) cross(x, y float64, i ink) {
	const r = 2.5
	c.line(x-r, y-r, x+r, y+r, i, 1.5)
	c.line(x-r, y+r, x+r, y-r, i, 1.5)
}

// An anchor says which side of a text is at its position.
type anchor string

const (
	left   anchor = "start"
	middle anchor = "middle"
	right  anchor = "end"
)

// text writes a line of text, which can come from anywhere.
func (c *canvas) text(x, y float64, a anchor, i ink, size float64, s string) {
	fmt.Fprintf(c, `<text x="%s" y="%s" text-anchor="%s" font-size="%s" class="fill %s" fill="%s">%s</text>`,
		px(x), px(y), a, px(size), i, i.color(), escape(s))
}

// escape makes foreign text harmless in a page. Isolation keeps its direction from spreading.
func escape(s string) string { return html.EscapeString(plain.Line(s)) }

// shorten cuts a text to about as many characters as there is room for.
func shorten(s string, room int) string {
	r := []rune(s)
	if len(r) <= room || room < 2 {
		return s
	}
	return string(r[:room-1]) + "…"
}

// A point is a position on a canvas.
type point struct{ x, y float64 }
