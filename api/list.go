package api

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"

	v1 "osqueue/client/api/v1"
	"osqueue/fsm"
)

// listParams are the query parameters of the list of jobs.
var listParams = []string{
	v1.ParamStatus, v1.ParamType, v1.ParamTag, v1.ParamGroup, v1.ParamWorker, v1.ParamBatch, v1.ParamCron,
	v1.ParamCreatedFrom, v1.ParamCreatedBefore, v1.ParamLimit, v1.ParamCursor,
}

// page is the requested part of a list. Empty fields and 0 do not restrict it.
type page struct {
	statuses []fsm.Status
	jobType  string
	tags     []string // the jobs have all of them
	group    string
	worker   string
	batch    string
	cron     string
	from     int64 // ms
	before   int64 // ms
	limit    int
	after    uint64 // Seq
}

// matches checks the conditions that the index does not cover.
func (p *page) matches(j *fsm.Job) bool {
	o := j.Options()
	switch {
	case p.jobType != "" && j.Type != p.jobType,
		slices.ContainsFunc(p.tags, func(tag string) bool { return !slices.Contains(o.Tags, tag) }),
		p.group != "" && o.Group != p.group,
		p.worker != "" && j.Execution().Worker != p.worker,
		p.batch != "" && o.Batch != p.batch,
		p.cron != "" && o.Cron != p.cron,
		p.from != 0 && j.CreatedAt < p.from,
		p.before != 0 && j.CreatedAt >= p.before:
		return false
	}
	return true
}

// scan calls fn for the jobs that may be on the page, in FIFO order, using the narrowest index.
// The jobs have the requested statuses; the caller must check the other conditions of the page.
// Whichever index is used, a position in the list is a Seq, so that a cursor stays valid.
func (p *page) scan(v *fsm.View, fn func(*fsm.Job) bool) {
	switch {
	case len(p.tags) > 0:
		v.MergedTagged(p.tags[0], p.statuses, p.after, fn)
	case p.batch != "":
		v.MergedOfBatch(p.batch, p.statuses, p.after, fn)
	case p.worker != "" && onlyRunning(p.statuses):
		v.HeldBy(p.worker, p.after, fn)
	case p.jobType != "":
		v.MergedOfType(p.jobType, p.statuses, p.after, fn)
	default:
		v.Merged(p.statuses, p.after, fn)
	}
}

func onlyRunning(statuses []fsm.Status) bool {
	return !slices.ContainsFunc(statuses, func(s fsm.Status) bool { return s != fsm.InProgress })
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
	// The figures and the jobs are fields of one object.
	c.out = append(c.out[:0], head[:len(head)-1]...)
	c.out = append(key(c.out, "jobs"), '[')
	var next uint64
	c.out, next = s.appendPage(c.out, v, &p)
	c.out = append(c.out, ']')
	if next != 0 {
		c.out = text(c.out, "nextCursor", cursorOf(next))
	}
	c.out = append(c.out, '}')
	return c.send()
}

// appendPage appends the jobs of a page. If there may be more, next is the position after which
// they come.
func (s *Server) appendPage(b []byte, v *fsm.View, p *page) (_ []byte, next uint64) {
	l := &s.cfg.Limits
	start, shown, seen, last := len(b), 0, 0, p.after
	p.scan(v, func(j *fsm.Job) bool {
		if shown >= p.limit || seen >= l.ListScan || len(b)-start >= l.ListBytes {
			next = last
			return false
		}
		seen++
		last = j.Seq
		if !p.matches(j) {
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

// defaultStatuses are the statuses of jobs that have not ended: older clients know
// these as the whole list.
var defaultStatuses = []fsm.Status{fsm.Scheduled, fsm.Unclaimed, fsm.InProgress, fsm.Blocked}

var allStatuses = []fsm.Status{
	fsm.Scheduled, fsm.Unclaimed, fsm.InProgress, fsm.Completed, fsm.Dead, fsm.Cancelled, fsm.Blocked,
}

func (s *Server) readPage(q url.Values) (page, error) {
	p := page{
		statuses: defaultStatuses, jobType: q.Get(v1.ParamType), tags: slices.DeleteFunc(slices.Clone(q[v1.ParamTag]), isEmpty), group: q.Get(v1.ParamGroup),
		worker: q.Get(v1.ParamWorker), batch: q.Get(v1.ParamBatch), cron: q.Get(v1.ParamCron),
	}
	for _, name := range []string{v1.ParamType, v1.ParamTag, v1.ParamGroup, v1.ParamWorker, v1.ParamBatch, v1.ParamCron} {
		for _, value := range q[name] {
			if err := checkParam(name, value); err != nil {
				return p, err
			}
		}
	}
	if len(p.tags) > tagsMax {
		return p, fail(badRequest, "%s is there %d times in the query; at most %d tags are possible", v1.ParamTag, len(p.tags), tagsMax)
	}
	var err error
	if names := q.Get(v1.ParamStatus); names != "" {
		if p.statuses, err = readStatuses(names); err != nil {
			return p, err
		}
	}
	if p.from, err = readTime(q, v1.ParamCreatedFrom); err != nil {
		return p, err
	}
	if p.before, err = readTime(q, v1.ParamCreatedBefore); err != nil {
		return p, err
	}
	if p.limit, err = s.readLimit(q); err != nil {
		return p, err
	}
	if given := q.Get(v1.ParamCursor); given != "" {
		if p.after, err = readCursor(given); err != nil {
			return p, badCursor(given)
		}
	}
	return p, nil
}

// tagsMax bounds the number of tags to compare with each job of a list.
const tagsMax = 20

func isEmpty(text string) bool { return text == "" }

func badCursor(given string) error {
	return fail(badRequest, "%s is %q; only a nextCursor of an earlier answer is possible", v1.ParamCursor, clip(given))
}

// checkParam checks a name in the query. Names in legacy documents may be longer than those of
// new jobs.
func checkParam(name, value string) error {
	if len(value) > pathIDMax {
		return fail(badRequest, "%s is longer than %d bytes", name, pathIDMax)
	}
	if strings.IndexByte(value, 0) >= 0 {
		return fail(badRequest, "%s contains the character NUL", name)
	}
	return nil
}

// readTime reads a time of the query; 0 if it is absent.
func readTime(q url.Values, name string) (int64, error) {
	given := q.Get(name)
	if given == "" {
		return 0, nil
	}
	ms, err := strconv.ParseInt(given, 10, 64)
	if err != nil || ms < secondsBelow {
		return 0, fail(badRequest, "%s is %q; milliseconds since 1970 are wanted", name, clip(given))
	}
	return ms, nil
}

// readLimit returns the maximum number of items of a page.
func (s *Server) readLimit(q url.Values) (int, error) {
	most := s.cfg.Limits.ListJobs
	given := q.Get(v1.ParamLimit)
	if given == "" {
		return most, nil
	}
	n, err := strconv.Atoi(given)
	if err != nil || n < 1 {
		return 0, fail(badRequest, "%s is %q; a number from 1 to %d is wanted", v1.ParamLimit, clip(given), most)
	}
	return min(n, most), nil
}

// readNamePage reads the requested part of a list by name.
func (s *Server) readNamePage(q url.Values) (limit int, after afterName, err error) {
	if limit, err = s.readLimit(q); err != nil {
		return 0, after, err
	}
	after, err = readNameCursor(q.Get(v1.ParamCursor))
	return limit, after, err
}

func readStatuses(names string) ([]fsm.Status, error) {
	if names == v1.StatusAll {
		return allStatuses, nil
	}
	var statuses []fsm.Status
	for name := range strings.SplitSeq(names, ",") {
		st, ok := fsm.ParseStatus(v1.StatusOf(strings.TrimSpace(name)))
		if !ok {
			return nil, fail(badRequest, "status %q is not known; %s and %s are, with commas between", clip(name),
				v1.StatusAll, strings.Join(statusNames(), ", "))
		}
		statuses = append(statuses, st)
		if len(statuses) > len(allStatuses) {
			return nil, fail(badRequest, "status has more names than there are")
		}
	}
	return statuses, nil
}

func statusNames() []string {
	names := make([]string, len(allStatuses))
	for i, st := range allStatuses {
		names[i] = st.String()
	}
	return names
}

// cursorForm is the first byte of a cursor; the position of the last job follows.
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
