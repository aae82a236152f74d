package build

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/tare-bench/tare/internal/agent"
	"github.com/tare-bench/tare/internal/bench"
)

// generatedFile is a build file of two stages. Each begins with a step that runs a program: what it is
// given as arguments has the mark, which BuildKit keeps with all that comes after it.
func generatedFile(steps int, mark string) string {
	var b strings.Builder
	run := func(stage, step int) {
		fmt.Fprintf(&b, "RUN [%q, \"echo\", \"%s/%d step %d\"]\n", agent.Path, mark, stage, step)
	}
	fmt.Fprintf(&b, "ARG %s\n", bench.BuildBase)
	fmt.Fprintf(&b, "FROM ${%s} AS first\n", bench.BuildBase)
	run(1, 1)
	b.WriteString("COPY . /context/\n")
	for step := 2; step < steps; step++ {
		run(1, step)
	}
	fmt.Fprintf(&b, "FROM ${%s}\n", bench.BuildBase)
	run(2, steps)
	b.WriteString("COPY --from=first /context/ /copied/\n")
	return b.String()
}

var (
	escapeDirective = regexp.MustCompile("(?i)^#\\s*escape\\s*=\\s*([\\\\`])\\s*$")
	anyDirective    = regexp.MustCompile(`(?i)^#\s*(syntax|escape|check)\s*=`)
	fromLine        = regexp.MustCompile(`(?i)^\s*FROM\s+(?:--[^\s]+\s+)*([^\s]+)`)
	hereDocument    = regexp.MustCompile(`<<-?["']?([A-Za-z_][A-Za-z0-9_]*)["']?`)
	takesDocuments  = regexp.MustCompile(`(?i)^\s*(RUN|COPY|ADD)\s`)
	imageID         = regexp.MustCompile(`^(?:sha256:)?[0-9a-f]{12,64}$`)
)

// markStages adds a line to each stage of a build file, right after FROM: a label, which is different in
// each. All images of its steps have it then. Everything else stays byte for byte.
func markStages(file, mark, run string) (string, error) {
	lines := strings.SplitAfter(file, "\n")
	escape := escapeOf(lines)
	var out strings.Builder
	stage := 0
	for i := 0; i < len(lines); {
		from := i
		instruction := ""
		for ; i < len(lines); i++ { // to the end of the instruction
			text := strings.TrimRight(lines[i], " \t\r\n")
			if trimmed := strings.TrimLeft(text, " \t"); instruction != "" && (trimmed == "" || trimmed[0] == '#') {
				continue // within an instruction, comments and empty lines are skipped
			}
			instruction += strings.TrimSuffix(text, escape) + " "
			if !strings.HasSuffix(text, escape) || strings.HasPrefix(strings.TrimLeft(text, " \t"), "#") {
				i++
				break
			}
		}
		i = afterDocuments(lines, i, instruction)
		whole := strings.Join(lines[from:i], "")
		out.WriteString(whole)
		m := fromLine.FindStringSubmatch(instruction)
		if m == nil {
			continue
		}
		if imageID.MatchString(m[1]) {
			return "", fmt.Errorf("FROM %s: give this image a name and use that: an image without a name could be "+
				"removed with those that are built of it", m[1])
		}
		if !strings.HasSuffix(whole, "\n") {
			out.WriteByte('\n')
		}
		stage++
		fmt.Fprintf(&out, "LABEL %s=%q %s=\"%s/%d\"\n", bench.RunLabel, run, bench.BuildLabel, mark, stage)
	}
	if stage == 0 {
		return "", errors.New("it has no FROM")
	}
	return out.String(), nil
}

// afterDocuments returns the index of the first line after the here-documents of an instruction.
func afterDocuments(lines []string, i int, instruction string) int {
	if !takesDocuments.MatchString(instruction) {
		return i
	}
	for _, m := range hereDocument.FindAllStringSubmatch(instruction, -1) {
		end := i
		for end < len(lines) && strings.Trim(lines[end], "\t\r\n") != m[1] {
			end++
		}
		if end < len(lines) { // otherwise it was something else, such as a shift of numbers
			i = end + 1
		}
	}
	return i
}

// escapeOf is what continues a line: a directive at the beginning of the file can change it.
func escapeOf(lines []string) string {
	for _, line := range lines {
		line = strings.TrimSpace(line)
		if m := escapeDirective.FindStringSubmatch(line); m != nil {
			return m[1]
		}
		if !anyDirective.MatchString(line) {
			break
		}
	}
	return `\`
}
