package osqueue

import (
	"bytes"
	"errors"
	"net/http"
	"net/url"
	"strings"

	v1 "osqueue/client/api/v1"
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
	*answer
	other  http.Header // of a later page
	failed bool        // a later page was refused
	begun  bool        // the jobs of the present page have begun
	kept   []byte      // what is not passed on yet: it may be the end of the page
	size   int         // of all pages
}

// Header implements http.ResponseWriter.
func (p *pages) Header() http.Header {
	if p.other != nil {
		return p.other
	}
	return p.answer.Header()
}

// WriteHeader implements http.ResponseWriter.
func (p *pages) WriteHeader(status int) {
	if p.other != nil {
		p.failed = p.failed || status != http.StatusOK
		return
	}
	if status == http.StatusOK {
		p.header.Del("Content-Length") // of this page alone
	}
	p.answer.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (p *pages) Write(b []byte) (int, error) {
	if !p.passed {
		p.WriteHeader(http.StatusOK)
	}
	if p.status != 0 || p.failed {
		return p.answer.body.Write(b)
	}
	p.kept = append(p.kept, b...)
	p.size += len(b)
	if p.other != nil && !p.begun {
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
	if _, err := p.answer.Write(p.kept[:n]); err != nil {
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

// list answers with the whole list, up to Limits.ListBytes.
func (h *Handler) list(a *answer) {
	p, target := &pages{answer: a}, v1.PathJobs
	for range pagesMax {
		h.ask(a, p, http.MethodGet, target, nil)
		if p.failed || p.other != nil && !p.begun {
			panic(http.ErrAbortHandler) // a list that breaks off must not look complete
		}
		cursor := p.end()
		if cursor == "" || p.size >= h.native.listBytes {
			break
		}
		p.kept = p.kept[:bytes.LastIndex(p.kept, []byte(cursorBegin))]
		if p.pass(len(p.kept)) != nil {
			return // the client has gone
		}
		p.other, p.begun = make(http.Header), false
		target = v1.PathJobs + "?" + v1.ParamCursor + "=" + url.QueryEscape(cursor)
	}
	_ = p.pass(len(p.kept)) // the client may have gone
}
