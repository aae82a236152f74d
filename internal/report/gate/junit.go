package gate

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"
)

// The parts of a JUnit file.
type (
	junitSuites struct {
		XMLName xml.Name     `xml:"testsuites"`
		Suites  []junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name       string          `xml:"name,attr"`
		Tests      int             `xml:"tests,attr"`
		Failures   int             `xml:"failures,attr"`
		Errors     int             `xml:"errors,attr"`
		Skipped    int             `xml:"skipped,attr"`
		Properties []junitProperty `xml:"properties>property"`
		Cases      []junitCase     `xml:"testcase"`
	}
	junitProperty struct {
		Name  string `xml:"name,attr"`
		Value string `xml:"value,attr"`
	}
	junitCase struct {
		Name    string     `xml:"name,attr"`
		Class   string     `xml:"classname,attr"`
		Failure *junitText `xml:"failure,omitempty"`
		Error   *junitText `xml:"error,omitempty"`
		Skipped *junitText `xml:"skipped,omitempty"`
		Output  string     `xml:"system-out,omitempty"`
	}
	junitText struct {
		Message string `xml:"message,attr"`
		Text    string `xml:",chardata"`
	}
)

// add appends a case, and counts it.
func (s *junitSuite) add(c junitCase) {
	s.Cases = append(s.Cases, c)
	s.Tests++
	switch {
	case c.Failure != nil:
		s.Failures++
	case c.Error != nil:
		s.Errors++
	case c.Skipped != nil:
		s.Skipped++
	}
}

// WriteJUnit writes the judgement as test results: a failure is worse, an error unreliable, and what
// is not shown to be harmless is skipped or, if the gate is strict, an error. What is wrong with the
// run as a whole is an error too: a suite without it would be green.
func WriteJUnit(w io.Writer, j *Judgement) error {
	class := line(j.Experiment)
	suite := junitSuite{Name: "tare " + class, Properties: []junitProperty{
		{"run", line(j.Run)},
		{"host", line(j.Host)},
		{"seed", fmt.Sprint(j.Seed)},
		{"blocks", fmt.Sprint(j.Blocks)},
		{"outcome", string(j.Outcome)},
	}}
	if all := j.obstacles(); len(all) > 0 {
		said := strings.Join(all, "; ")
		suite.add(junitCase{Name: "the run as a whole", Class: class, Output: said, Error: &junitText{Message: said}})
	}
	listed, rest := j.listed()
	for _, c := range listed {
		suite.add(j.junitCase(c))
	}
	if said := leftOut(rest); said != "" {
		suite.add(junitCase{Name: "all others", Class: class, Output: said, Skipped: &junitText{Message: said}})
	}
	b, err := xml.MarshalIndent(junitSuites{Suites: []junitSuite{suite}}, "", "  ")
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, xml.Header+string(b)+"\n")
	return err
}

// junitCase is one comparison as a test.
func (j *Judgement) junitCase(c *Check) junitCase {
	one := junitCase{Name: c.name(), Class: line(j.Experiment) + "." + line(c.Metric), Output: c.said()}
	text := &junitText{Message: c.State.label() + ": " + line(c.Finding), Text: "against " + line(c.Baseline)}
	switch outcome := j.outcomeOf(c); {
	case outcome == Worse:
		one.Failure = text
	case outcome == Undecided:
		one.Error = text
	case c.State == Unproved:
		one.Skipped = text
	}
	return one
}
