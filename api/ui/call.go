package ui

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	v1 "osqueue/client/api/v1"
	"osqueue/internal/web"
)

// apiError is a refusal of the API, or of the dashboard.
type apiError struct {
	Status int
	Title  string
	Detail string
	Again  bool   // the same request may succeed in a moment
	Tag    string // of the API's problem
	SignIn string // the path to sign in; "": it would not help
}

// Error implements error.
func (e *apiError) Error() string { return e.Title + ": " + e.Detail }

// get reads from the API, by default the state of this node.
func (q *request) get(path string, values url.Values, out any) error {
	if values == nil {
		values = url.Values{}
	}
	switch {
	case path == v1.PathStatus || path == v1.PathPast:
	case q.at != 0:
		values.Set(v1.ParamAt, strconv.FormatInt(q.at, 10))
	case q.lsn != "":
		values.Set(v1.ParamMinLSN, q.lsn)
	default:
		values.Set(v1.ParamConsistency, v1.ConsistencyLocal)
		return q.orOfLeader(q.call(http.MethodGet, path, values, nil, out), path, values, out)
	}
	return q.behind(q.call(http.MethodGet, path, values, nil, out))
}

// orOfLeader asks the leader for what this node does not have: it may be so new that this node
// has not applied it yet. The rest of the page waits for that state.
func (q *request) orOfLeader(missing error, path string, values url.Values, out any) error {
	var e *apiError
	if !errors.As(missing, &e) || e.Tag != v1.TagNotFound {
		return missing
	}
	values.Set(v1.ParamConsistency, v1.ConsistencyLeader)
	err := q.call(http.MethodGet, path, values, nil, out)
	if errors.As(err, &e) && e.Status >= http.StatusInternalServerError {
		return &apiError{
			Status: http.StatusServiceUnavailable, Title: "Not known to this node", Again: true,
			Detail: "This node has no such object, or does not have it yet, and the leader did not answer: " + e.Detail + ". The page tries again by itself.",
		}
	}
	return err
}

// behind explains the error of a read that waited for the action before it.
func (q *request) behind(err error) error {
	var e *apiError
	if q.lsn == "" || !errors.As(err, &e) || e.Tag != v1.TagTimeout {
		return err
	}
	return &apiError{
		Status: e.Status, Title: "This node is behind", Again: true,
		Detail: "The action is done, but this node does not show it yet: " + e.Detail + ". The page tries again by itself.",
	}
}

// post writes to the API.
func (q *request) post(path string, in, out any) error {
	return q.write(http.MethodPost, path, in, out)
}

// write sends a change to the API, and remembers its LSN.
func (q *request) write(method, path string, in, out any) error {
	var body []byte
	if in != nil {
		var err error
		if body, err = json.Marshal(in); err != nil {
			return err
		}
	}
	return q.call(method, path, nil, body, out)
}

// call calls the API of this node with the rights of the caller. path is escaped.
func (q *request) call(method, path string, values url.Values, body []byte, out any) error {
	target := path
	if len(values) > 0 {
		target += "?" + values.Encode()
	}
	r, err := web.NewRequest(q.r.Context(), method, target, q.r.RemoteAddr, body)
	if err != nil {
		return err
	}
	r.Host, r.TLS = q.r.Host, q.r.TLS
	if value := q.authorization(); value != "" {
		r.Header.Set("Authorization", value)
	}
	a := web.NewAnswer(make(http.Header))
	if !a.Of(q.cfg.API, r) {
		return &apiError{
			Status: http.StatusServiceUnavailable, Title: "No answer",
			Detail: "The connection to the leader broke before it answered. Look at the page again before you repeat an action.",
		}
	}
	if a.Status < 200 || a.Status > 299 {
		return problemIn(a)
	}
	switch lsn := a.Header().Get(v1.HeaderLSN); {
	case method != http.MethodGet:
		q.lsn = lsn
	case values.Get(v1.ParamConsistency) == v1.ConsistencyLeader:
		q.lsn = lsn
	case q.at != 0 && lsn != "":
		q.shown = lsn
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(a.Body.Bytes(), out); err != nil {
		return fmt.Errorf("read the answer of %s: %w", path, err)
	}
	return nil
}

// problemIn returns the error of an answer that is not 2xx.
func problemIn(a *web.Answer) error {
	e := &apiError{Status: max(a.Status, http.StatusBadRequest), Title: http.StatusText(a.Status)}
	var p v1.Problem
	if json.Unmarshal(a.Body.Bytes(), &p) == nil && p.Title != "" {
		e.Title, e.Detail, e.Tag, e.Again = p.Title, p.Detail, p.Tag, p.Tag == v1.TagRebuilding
	}
	return e
}

// segment is a path of the API with one escaped segment, and the rest.
func segment(path, name string, rest ...string) string {
	path += "/" + url.PathEscape(name)
	for _, r := range rest {
		path += "/" + r
	}
	return path
}
