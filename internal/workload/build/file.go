package build

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
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
	fromLine        = regexp.MustCompile(`(?i)^\s*FROM\s+(?:--[^\s]+\s+)*([^\s]+)(?:\s+AS\s+([^\s]+))?`)
	argLine         = regexp.MustCompile(`(?i)^\s*ARG\s+(.*)`)
	hereDocument    = regexp.MustCompile(`<<-?["']?([A-Za-z_][A-Za-z0-9_]*)["']?`)
	takesDocuments  = regexp.MustCompile(`(?i)^\s*(RUN|COPY|ADD)\s`)
	imageID         = regexp.MustCompile(`^(?:sha256:)?[0-9a-f]{3,64}$`) // 3 digits are enough for podman
)

// markStages adds a line to each stage of a build file, right after FROM: a label, which is different in
// each. All images of its steps have it then. Everything else stays byte for byte.
func markStages(file, mark, run string) (string, error) {
	lines := strings.SplitAfter(file, "\n")
	escape := escapeOf(lines)
	var out strings.Builder
	stage := 0
	args, stages := map[string]string{}, []string{}
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
		if m := argLine.FindStringSubmatch(instruction); m != nil && stage == 0 {
			addDefaults(args, m[1])
		}
		m := fromLine.FindStringSubmatch(instruction)
		if m == nil {
			continue
		}
		base := expand(m[1], args)
		if imageID.MatchString(base) && !slices.Contains(stages, base) {
			return "", fmt.Errorf("FROM %s: %s could be the ID of an image: give this image a name and use that, with its "+
				"tag: an image without a name could be removed with those that are built of it", m[1], base)
		}
		stages = append(stages, strings.ToLower(m[2]))
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

// addDefaults adds what an ARG before the first FROM gives names, such as in BASE=debian:13. tare passes no other values.
func addDefaults(args map[string]string, names string) {
	for word := range strings.FieldsSeq(names) {
		if name, value, ok := strings.Cut(word, "="); ok {
			args[name] = expand(value, args)
		}
	}
}

// expand replaces variables, such as in ${BASE}, ${BASE:-debian} and ${BASE:+debian}, and removes quotes.
func expand(word string, args map[string]string) string {
	return strings.Trim(os.Expand(word, func(variable string) string {
		name, other := variable, ""
		if i := strings.IndexAny(variable, ":-+"); i >= 0 {
			name, other = variable[:i], strings.TrimPrefix(variable[i:], ":")
		}
		value := args[name]
		switch {
		case strings.HasPrefix(other, "-") && value == "", strings.HasPrefix(other, "+") && value != "":
			return other[1:]
		case strings.HasPrefix(other, "+"):
			return ""
		}
		return value
	}), `"'`)
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
