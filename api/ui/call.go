package ui

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	v1 "osqueue/client/api/v1"
)

// apiError is a refusal of the API, or of the dashboard.
type apiError struct {
	Status int
	Title  string
	Detail string
	Again  bool // the same request may succeed in a moment
}

// Error implements error.
func (e *apiError) Error() string { return e.Title + ": " + e.Detail }

// answer collects the answer of the API in memory.
type answer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (a *answer) Header() http.Header { return a.header }

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
}

// Write implements http.ResponseWriter.
func (a *answer) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.body.Write(p)
}

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
	}
	return q.call(http.MethodGet, path, values, nil, out)
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
	r, err := http.NewRequestWithContext(q.r.Context(), method, target, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.RequestURI, r.Host, r.RemoteAddr, r.TLS = target, q.r.Host, q.r.RemoteAddr, q.r.TLS
	if value := q.authorization(); value != "" {
		r.Header.Set("Authorization", value)
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	a := &answer{header: make(http.Header)}
	q.cfg.API.ServeHTTP(a, r)
	if a.status < 200 || a.status > 299 {
		return a.problem()
	}
	switch lsn := a.header.Get(v1.HeaderLSN); {
	case method != http.MethodGet:
		q.lsn = lsn
	case q.at != 0 && lsn != "":
		q.shown = lsn
	}
	if out == nil {
		_, _ = io.Copy(io.Discard, &a.body)
		return nil
	}
	if err := json.Unmarshal(a.body.Bytes(), out); err != nil {
		return fmt.Errorf("read the answer of %s: %w", path, err)
	}
	return nil
}

// problem returns the error of an answer that is not 2xx.
func (a *answer) problem() error {
	e := &apiError{Status: max(a.status, http.StatusBadRequest), Title: http.StatusText(a.status)}
	var p v1.Problem
	if json.Unmarshal(a.body.Bytes(), &p) == nil && p.Title != "" {
		e.Title, e.Detail, e.Again = p.Title, p.Detail, p.Tag == v1.TagRebuilding
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
