// Package inprocess calls an http.Handler without a socket in between.
package inprocess

import (
	"bytes"
	"context"
	"net/http"
)

// Answer is an http.ResponseWriter that keeps the answer. It is for one call, and
// not safe for concurrent use. Make it with NewAnswer.
type Answer struct {
	Status int // 0 until the head is written
	Body   bytes.Buffer
	header http.Header
}

// NewAnswer makes an answer that writes its head into header.
func NewAnswer(header http.Header) *Answer { return &Answer{header: header} }

// Header implements http.ResponseWriter.
func (a *Answer) Header() http.Header { return a.header }

// WriteHeader implements http.ResponseWriter.
func (a *Answer) WriteHeader(status int) {
	if a.Status == 0 && status >= http.StatusOK { // 1xx come before the answer
		a.Status = status
	}
}

// Write implements http.ResponseWriter.
func (a *Answer) Write(b []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.Body.Write(b)
}

// Of has h answer r, and reports whether there was an answer, and a whole one: it may
// have come from another node.
func (a *Answer) Of(h http.Handler, r *http.Request) (whole bool) {
	// To know of a server is what makes a proxy tell of half an answer.
	if r.Context().Value(http.ServerContextKey) == nil {
		r = r.WithContext(context.WithValue(r.Context(), http.ServerContextKey, &http.Server{})) //nolint:gosec // it serves nothing
	}
	defer func() {
		if p := recover(); p != nil {
			if p != http.ErrAbortHandler { //nolint:errorlint // it is panicked as it is
				panic(p)
			}
			whole = false
		}
	}()
	h.ServeHTTP(a, r)
	return a.Status != 0
}
