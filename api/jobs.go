package api

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	v1 "osqueue/api/v1"
	"osqueue/fsm"
)

func (s *Server) jobRoutes() []route {
	return []route{
		{method: http.MethodGet, path: v1.PathJobs + "/{id}", at: upToDate, handle: s.job},
		{
			method: http.MethodGet, path: v1.PathJobs, at: upToDate, handle: s.listJobs,
			params: []string{v1.ParamStatus, v1.ParamType, v1.ParamLimit, v1.ParamCursor},
		},
	}
}

// job is GET /v1/jobs/{id}.
func (s *Server) job(c *call) error {
	id, err := c.segment("id")
	if err != nil {
		return err
	}
	j := s.b.Job(id)
	if j == nil {
		return fsm.NotFound.Err()
	}
	c.out = appendJob(c.out[:0], j)
	return c.send()
}

// page is what part of the jobs is asked for.
type page struct {
	statuses []fsm.Status
	jobType  string // "": any
	limit    int
	after    uint64 // Seq
}

// listJobs is GET /v1/jobs.
func (s *Server) listJobs(c *call) error {
	values, err := c.query()
	if err != nil {
		return err
	}
	p, err := s.readPage(values)
	if err != nil {
		return err
	}
	v := s.b.View()
	head, err := marshal(s.stats(v))
	if err != nil {
		return err
	}
	c.lsn = v.LSN()
	// The figures and the jobs are members of one object.
	c.out = append(c.out[:0], head[:len(head)-1]...)
	c.out = append(key(c.out, "jobs"), '[')
	var next uint64
	c.out, next = s.appendPage(c.out, v, p)
	c.out = append(c.out, ']')
	if next != 0 {
		c.out = text(c.out, "nextCursor", cursorOf(next))
	}
	c.out = append(c.out, '}')
	return c.send()
}

// appendPage appends the jobs of a page. If there may be more, next is the
// place after which they come.
func (s *Server) appendPage(b []byte, v *fsm.View, p page) (_ []byte, next uint64) {
	l := &s.cfg.Limits
	start, shown, seen, last := len(b), 0, 0, p.after
	v.Merged(p.statuses, p.after, func(j *fsm.Job) bool {
		if shown >= p.limit || seen >= l.ListScan || len(b)-start >= l.ListBytes {
			next = last
			return false
		}
		seen++
		last = j.Seq
		if p.jobType != "" && j.Type != p.jobType {
			return true
		}
		if shown > 0 {
			b = append(b, ',')
		}
		shown++
		b = appendJob(b, j)
		return true
	})
	return b, next
}

// defaultStatuses are those of a job that has not ended: what older clients
// know as the whole list.
var defaultStatuses = []fsm.Status{fsm.Scheduled, fsm.Unclaimed, fsm.InProgress}

var allStatuses = []fsm.Status{fsm.Scheduled, fsm.Unclaimed, fsm.InProgress, fsm.Completed, fsm.Dead, fsm.Cancelled}

func (s *Server) readPage(q url.Values) (page, error) {
	p := page{statuses: defaultStatuses, jobType: q.Get(v1.ParamType), limit: s.cfg.Limits.ListJobs}
	var err error
	if names := q.Get(v1.ParamStatus); names != "" {
		if p.statuses, err = readStatuses(names); err != nil {
			return p, err
		}
	}
	if given := q.Get(v1.ParamLimit); given != "" {
		n, err := strconv.Atoi(given)
		if err != nil || n < 1 {
			return p, fail(badRequest, "limit is %q; a number from 1 to %d is wanted", clip(given), p.limit)
		}
		p.limit = min(n, p.limit)
	}
	if given := q.Get(v1.ParamCursor); given != "" {
		if p.after, err = readCursor(given); err != nil {
			return p, fail(badRequest, "cursor is %q; only a nextCursor of an earlier answer is possible", clip(given))
		}
	}
	return p, nil
}

func readStatuses(names string) ([]fsm.Status, error) {
	if names == v1.StatusAll {
		return allStatuses, nil
	}
	var statuses []fsm.Status
	for name := range strings.SplitSeq(names, ",") {
		st, ok := fsm.ParseStatus(strings.TrimSpace(name))
		if !ok {
			return nil, fail(badRequest, "status %q is not known; %s and %s are, with commas between", clip(name),
				v1.StatusAll, statusNames())
		}
		statuses = append(statuses, st)
		if len(statuses) > len(allStatuses) {
			return nil, fail(badRequest, "status has more names than there are")
		}
	}
	return statuses, nil
}

func statusNames() string {
	names := make([]string, len(allStatuses))
	for i, st := range allStatuses {
		names[i] = st.String()
	}
	return strings.Join(names, ", ")
}

// A cursor is the place of the last job looked at, behind a byte that tells
// its form.
const cursorForm = 1

var errCursor = errors.New("not a cursor")

func cursorOf(after uint64) string {
	return base64.RawURLEncoding.EncodeToString(binary.AppendUvarint([]byte{cursorForm}, after))
}

func readCursor(given string) (uint64, error) {
	raw, err := base64.RawURLEncoding.DecodeString(given)
	if err != nil {
		return 0, err
	}
	if len(raw) < 2 || raw[0] != cursorForm {
		return 0, errCursor
	}
	after, n := binary.Uvarint(raw[1:])
	if n != len(raw)-1 {
		return 0, errCursor
	}
	return after, nil
}
