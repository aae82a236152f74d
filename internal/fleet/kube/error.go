package kube

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/tare-bench/tare/internal/text/plain"
)

// What an error of the server can be, for errors.Is.
var (
	ErrNotFound    = errors.New("there is no such object")
	ErrExists      = errors.New("there is already an object of that name")
	ErrConflict    = errors.New("somebody else has changed or replaced the object")
	ErrForbidden   = errors.New("the cluster does not allow it")
	ErrLogin       = errors.New("the cluster does not know who asks") // any more
	ErrInvalid     = errors.New("the cluster refuses it")             // by its rules or its webhooks
	ErrExpired     = errors.New("what was asked for is too old")
	ErrUnreachable = errors.New("the API server does not answer")
)

// An Error is a request that failed.
type Error struct {
	Code    int    // of HTTP; 0 = there was no answer, or one that cannot be read
	Reason  string // Kubernetes' word for it, such as "AlreadyExists"; foreign text
	Message string // foreign text

	request    *request
	server     string // that did not answer
	cause      error  // of no answer
	retryAfter time.Duration
}

// refusal reads the answer that says no.
func refusal(r *request, answer *http.Response) *Error {
	e := &Error{request: r, Code: answer.StatusCode}
	if seconds, err := strconv.Atoi(answer.Header.Get("Retry-After")); err == nil && seconds > 0 {
		e.retryAfter = time.Duration(min(seconds, 24*60*60)) * time.Second
	}
	all, err := io.ReadAll(io.LimitReader(answer.Body, maxStatus))
	if err != nil {
		e.Message = err.Error() // what the server said is lost, but not its code
		return e
	}
	var s status
	if json.Unmarshal(all, &s) == nil && s.Message != "" {
		e.Reason, e.Message = s.Reason, s.Message
	} else if len(all) > 0 { // of something in between
		e.Message = string(all)
	} else {
		e.Message = answer.Status
	}
	return e
}

// A status is how the API server says no.
type status struct {
	Reason  string `json:"reason"`
	Message string `json:"message"`
	Code    int    `json:"code"`
}

// Is says which of the errors above this is.
func (e *Error) Is(target error) bool { return e.is() == target }

func (e *Error) is() error {
	switch e.Code {
	case 0:
		if e.cause != nil {
			return ErrUnreachable
		}
	case http.StatusNotFound:
		return ErrNotFound
	case http.StatusConflict:
		if e.Reason == "AlreadyExists" {
			return ErrExists
		}
		return ErrConflict
	case http.StatusForbidden:
		return ErrForbidden
	case http.StatusUnauthorized: // it says nothing about what is allowed
		return ErrLogin
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
		return ErrInvalid
	case http.StatusGone:
		return ErrExpired
	}
	return nil
}

// Unwrap is why there was no answer.
func (e *Error) Unwrap() error { return e.cause }

// maxMessage is how much of what the server says is shown, in bytes.
const maxMessage = 2000

func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "cannot %s %s", e.request.verb, e.request.what)
	if e.request.name != "" {
		fmt.Fprintf(&b, " %q", e.request.name)
	}
	if e.request.namespace != "" {
		fmt.Fprintf(&b, " in namespace %q", e.request.namespace)
	}
	message := e.Message
	if e.cause != nil {
		message = e.cause.Error()
	}
	if len(message) > maxMessage {
		message = strings.ToValidUTF8(message[:maxMessage], "") + "…"
	}
	message = plain.Line(strings.TrimSpace(message))
	if e.cause != nil && e.server != "" {
		fmt.Fprintf(&b, ": the API server %s does not answer: %s", plain.Line(e.server), message)
	} else {
		fmt.Fprintf(&b, ": %s", message)
	}
	if hint := e.hint(); hint != "" {
		fmt.Fprintf(&b, ". %s", hint)
	}
	return b.String()
}

// hint says what to do.
func (e *Error) hint() string {
	switch {
	case e.Code == http.StatusUnauthorized:
		return "Log in to the cluster again, or choose another context"
	case e.Code == http.StatusForbidden && strings.Contains(e.Message, "exceeded quota"):
		return "Choose another namespace, or a larger quota"
	case e.Code == http.StatusForbidden && strings.Contains(e.Message, "PodSecurity"):
		return "The label pod-security.kubernetes.io/enforce of the namespace decides that: choose another namespace"
	case e.Code == http.StatusForbidden && strings.Contains(e.Message, " cannot "): // what RBAC says
		return `"tare fleet rbac" prints the rights that a fleet needs`
	case e.Code == http.StatusTooManyRequests:
		return "The server is busy: try again later, or ask it less often, as with --qps"
	case e.cause != nil && e.server != "":
		return "See whether the cluster is up and can be reached from here, or choose another context"
	}
	return ""
}
