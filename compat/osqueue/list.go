package osqueue

import (
	"bytes"
	"errors"
	"net/http"
	"net/url"
	"strings"

	v1 "osqueue/client/api/v1"
	"osqueue/internal/web"
)

// The legacy broker answers GET /v1/jobs with the whole list, where the API has pages. The pages
// are joined as they arrive, so that a list takes little memory, also while its client does not
// read.

const (
	jobsBegin   = `"jobs":[`         // in the head of a page
	cursorBegin = `],"nextCursor":"` // after its jobs, if there are more
	cursorEnd   = `"}`
	cursorTail  = 96      // bytes: more than from cursorBegin to the end of a page
	headMax     = 4 << 10 // bytes: more than a page has before its jobs
)

var errNoList = errors.New("the page of the list has no jobs field at its start")

// pages joins the pages of a list. It is the http.ResponseWriter of each of them in turn.
type pages struct {
	w      http.ResponseWriter
	header http.Header // of the present page
	status int         // of the present page; 0 until its head is written
	later  bool        // the present page is not the first one
	begun  bool        // the jobs of the present page have begun
	kept   []byte      // what is not passed on yet: it may be the end of the page, or is an error
	size   int         // of all pages
}

// Header implements http.ResponseWriter.
func (p *pages) Header() http.Header { return p.header }

// WriteHeader implements http.ResponseWriter.
func (p *pages) WriteHeader(status int) {
	if p.status == 0 && status >= http.StatusOK {
		p.status = status
		p.header.Del("Content-Length") // of this page alone
	}
}

// Write implements http.ResponseWriter.
func (p *pages) Write(b []byte) (int, error) {
	p.WriteHeader(http.StatusOK)
	p.kept = append(p.kept, b...)
	if p.status != http.StatusOK {
		return len(b), nil
	}
	p.size += len(b)
	if p.later && !p.begun {
		if err := p.skipHead(); err != nil || !p.begun {
			return len(b), err
		}
	}
	if n := len(p.kept) - cursorTail; n > 0 {
		return len(b), p.pass(n)
	}
	return len(b), nil
}

// skipHead replaces the head of a later page by a comma, when its first job has begun to arrive.
func (p *pages) skipHead() error {
	i := bytes.Index(p.kept, []byte(jobsBegin))
	after := i + len(jobsBegin)
	switch {
	case i < 0 && len(p.kept) > headMax:
		return errNoList
	case i < 0 || after == len(p.kept):
		return nil
	}
	p.begun = true
	if p.kept[after] == ']' { // it has no job
		p.kept = append(p.kept[:0], p.kept[after:]...)
		return nil
	}
	p.kept = append(append(p.kept[:0], ','), p.kept[after:]...)
	return nil
}

// pass passes n bytes on.
func (p *pages) pass(n int) error {
	if _, err := p.w.Write(p.kept[:n]); err != nil { //nolint:gosec // JSON of the API
		return err
	}
	p.kept = append(p.kept[:0], p.kept[n:]...)
	return nil
}

// end takes the end of a page from what is kept, and returns its cursor, which is "" on the last
// page.
func (p *pages) end() (cursor string) {
	i := bytes.LastIndex(p.kept, []byte(cursorBegin))
	if i < 0 {
		return ""
	}
	cursor, found := strings.CutSuffix(string(p.kept[i+len(cursorBegin):]), cursorEnd)
	if !found || strings.Contains(cursor, `"`) { // it is in a payload
		return ""
	}
	return cursor
}

// listREST answers with the whole list, up to Limits.ListBytes.
func (h *Handler) listREST(w http.ResponseWriter, r *http.Request) {
	p := &pages{w: w, header: w.Header()}
	if !web.Serve(h.rest, p, r) {
		panic(http.ErrAbortHandler) // an answer that breaks off must not look complete
	}
	if p.status != http.StatusOK {
		a := &answer{ResponseWriter: w, r: r}
		a.WriteHeader(p.status)
		_, _ = a.Write(p.kept) // the client may have gone
		a.finish()
		return
	}
	for range pagesMax {
		cursor := p.end()
		if cursor == "" || p.size >= h.native.listBytes {
			break
		}
		p.kept = p.kept[:bytes.LastIndex(p.kept, []byte(cursorBegin))]
		if p.pass(len(p.kept)) != nil {
			return // the client has gone
		}
		next, err := web.NewRequest(r.Context(), http.MethodGet, v1.PathJobs+"?"+v1.ParamCursor+"="+url.QueryEscape(cursor), r.RemoteAddr, nil)
		p.header, p.status, p.later, p.begun = make(http.Header), 0, true, false
		if err != nil || !web.Serve(h.rest, p, next) || p.status != http.StatusOK || !p.begun {
			panic(http.ErrAbortHandler)
		}
	}
	_, _ = w.Write(p.kept) // the client may have gone
}
