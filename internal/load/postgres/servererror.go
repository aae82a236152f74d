package postgres

import (
	"fmt"
	"strings"
)

// The codes (SQLSTATE) of errors that have a meaning here.
const (
	CodeSerialization = "40001"
	CodeDeadlock      = "40P01"
)

// codeStarting is the code of a server that does not accept clients yet.
const codeStarting = "57P03"

// A ServerError is an error that the server told.
type ServerError struct {
	Severity string // such as ERROR or FATAL, never translated
	Code     string // SQLSTATE, five characters
	Message  string
	Detail   string // may be empty
	Hint     string // may be empty
}

func (e *ServerError) Error() string {
	var text strings.Builder
	text.WriteString(fmt.Sprintf("the server says: %s: %s (SQLSTATE %s)", e.Severity, e.Message, e.Code))
	for _, more := range []string{e.Detail, e.Hint} {
		if more != "" {
			text.WriteString(": " + more)
		}
	}
	return text.String()
}

// ends reports whether the server closes the connection after this error.
func (e *ServerError) ends() bool { return e.Severity == "FATAL" || e.Severity == "PANIC" }

// isTrouble reports whether the server itself is in trouble, which is no matter of one transaction: it lacks disk,
// memory or connections, the system refuses it something, or its data are damaged.
func (e *ServerError) isTrouble() bool {
	class := e.Code[:2] // it has five characters
	return class == "53" || class == "58" || class == "XX"
}

// maxErrorField is how much of each field of an error is kept, in bytes.
const maxErrorField = 1000

// parseError reads an ErrorResponse.
func parseError(body []byte) (*ServerError, error) {
	e := &ServerError{}
	severity := ""
	for len(body) > 0 && body[0] != 0 {
		text, rest, ok := cutString(body[1:])
		if !ok {
			return nil, protocolError("an error without end: %.80q", body)
		}
		text = strings.ToValidUTF8(text[:min(len(text), maxErrorField)], "?")
		switch body[0] {
		case 'S':
			severity = text
		case 'V':
			e.Severity = text
		case 'C':
			e.Code = text
		case 'M':
			e.Message = text
		case 'D':
			e.Detail = text
		case 'H':
			e.Hint = text
		}
		body = rest
	}
	if e.Severity == "" {
		e.Severity = severity // servers before 9.6
	}
	if e.Severity == "" || len(e.Code) != 5 {
		return nil, protocolError("an error without severity or code: %.80q", e.Message)
	}
	return e, nil
}
