package builder

import (
	"encoding/json"
	"strings"
	"time"
)

// A status is BuildKit's progress as JSON objects, which buildx prints with --progress=rawjson. Each may
// have several lines; between them there may be lines of text.
type status struct {
	kit
	object strings.Builder // an object that has begun
}

// A kitStatus is the part of an object that tare reads.
type kitStatus struct {
	Vertexes []struct {
		Digest    string
		Name      string
		Started   *time.Time
		Completed *time.Time
		Cached    bool
		Error     string
	} `json:"vertexes"`
	Logs []struct {
		Vertex string
		Data   []byte
	} `json:"logs"`
}

// maxObject is the length of the longest object that is read, in bytes.
const maxObject = 4 << 20

func (s *status) line(text string, at time.Duration, stderr bool) {
	if strings.HasPrefix(text, "{") {
		s.object.Reset()
	} else if s.object.Len() == 0 {
		s.kit.line(text, at, stderr)
		return
	}
	s.object.WriteString(text)
	s.object.WriteByte('\n')
	if !strings.HasPrefix(text, "}") && !(strings.HasPrefix(text, "{") && strings.HasSuffix(text, "}")) {
		if s.object.Len() > maxObject {
			s.object.Reset()
		}
		return
	}
	var read kitStatus
	if json.Unmarshal([]byte(s.object.String()), &read) == nil {
		s.read(&read)
	}
	s.object.Reset()
}

// read takes over what an object says.
func (s *status) read(read *kitStatus) {
	for _, v := range read.Vertexes {
		if len(s.order) >= maxSteps && s.ids[v.Digest] == nil {
			continue
		}
		step := s.get(v.Digest, v.Name)
		step.cached = step.cached || v.Cached
		if v.Started != nil && v.Completed != nil {
			took := v.Completed.Sub(*v.Started)
			step.completed = 0 <= took && took < maxStep
			step.took = took
		}
		if v.Error != "" && (s.failed == nil || !strings.Contains(v.Error, "canceled")) {
			s.failed, s.why = step, v.Error
		}
	}
	for _, l := range read.Logs {
		if step := s.ids[l.Vertex]; step != nil {
			for line := range strings.Lines(string(l.Data)) {
				step.printed(line)
			}
		}
	}
}
