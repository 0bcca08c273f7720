package api

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "osqueue/client/api/v1"
	"osqueue/fsm"
)

// listParams are the query parameters of the list of jobs.
var listParams = []string{
	v1.ParamStatus, v1.ParamType, v1.ParamTag, v1.ParamGroup, v1.ParamWorker, v1.ParamBatch, v1.ParamCron,
	v1.ParamCreatedFrom, v1.ParamCreatedBefore, v1.ParamFinishedFrom, v1.ParamFinishedBefore, v1.ParamSearch,
	v1.ParamSort, v1.ParamLimit, v1.ParamCursor,
}

// page is the requested part of a list. Empty fields and 0 do not restrict it.
type page struct {
	statuses []fsm.Status
	jobType  *string  // "" are the jobs without type
	tags     []string // the jobs have all of them
	group    string
	worker   string
	batch    string
	cron     string
	created  span
	finished span
	search   string
	newest   bool // newest job first
	limit    int
	after    uint64 // Seq of the last job before the page
}

// span is a range of times in ms. The end does not belong to it; 0 is no bound.
type span struct{ from, before int64 }

func (s span) has(ms int64) bool {
	return (s.from == 0 || ms >= s.from) && (s.before == 0 || ms < s.before)
}

// matches checks the conditions that the index does not cover.
func (p *page) matches(j *fsm.Job) bool {
	o := j.Options()
	switch {
	case p.jobType != nil && j.Type != *p.jobType,
		slices.ContainsFunc(p.tags, func(tag string) bool { return !slices.Contains(o.Tags, tag) }),
		p.group != "" && o.Group != p.group,
		p.worker != "" && j.Execution().Worker != p.worker,
		p.batch != "" && o.Batch != p.batch,
		p.cron != "" && o.Cron != p.cron,
		!p.created.has(j.CreatedAt),
		p.finished != span{} && (j.Execution().FinishedAt == 0 || !p.finished.has(j.Execution().FinishedAt)):
		return false
	}
	return p.search == "" || found(j, p.search)
}

// scan calls fn for the jobs that may be on the page, in its order, using the narrowest index.
// The jobs have the requested statuses; the caller must check the other conditions of the page.
// Whichever index is used, a position in the list is a Seq, so that a cursor stays valid.
func (p *page) scan(v *fsm.View, fn func(*fsm.Job) bool) {
	if p.newest {
		v.Newest(p.index(), p.statuses, p.after, fn)
		return
	}
	switch {
	case len(p.tags) > 0:
		v.MergedTagged(p.tags[0], p.statuses, p.after, fn)
	case p.batch != "":
		v.MergedOfBatch(p.batch, p.statuses, p.after, fn)
	case p.worker != "" && onlyRunning(p.statuses):
		v.HeldBy(p.worker, p.after, fn)
	case p.jobType != nil:
		v.MergedOfType(*p.jobType, p.statuses, p.after, fn)
	default:
		v.Merged(p.statuses, p.after, fn)
	}
}

// index is the narrowest index of the page.
func (p *page) index() fsm.Index {
	switch {
	case len(p.tags) > 0:
		return fsm.Index{Tag: p.tags[0]}
	case p.batch != "":
		return fsm.Index{Batch: p.batch}
	}
	return fsm.Index{Type: p.jobType}
}

func onlyRunning(statuses []fsm.Status) bool {
	return !slices.ContainsFunc(statuses, func(s fsm.Status) bool { return s != fsm.InProgress })
}

// listJobs is GET /v1/jobs.
func (s *jobs) listJobs(c *call) error {
	values, err := c.query()
	if err != nil {
		return err
	}
	p, err := s.readPage(c, values)
	if err != nil {
		return err
	}
	v := c.state().View()
	head, err := marshal(s.statsFor(c, v, p.jobType))
	if err != nil {
		return err
	}
	built, err := s.page(c)
	if err != nil {
		return err
	}
	jobs, next := s.pageOf(v, &p)
	built()
	c.lsn = v.LSN()
	// The figures and the jobs are fields of one object.
	c.out = append(c.out[:0], head[:len(head)-1]...)
	c.out = append(key(c.out, "jobs"), '[')
	if err := sendItems(c, c.seen(jobs), listedBytes, AppendJob); err != nil {
		return err
	}
	if next != 0 {
		c.out = text(c.out, "nextCursor", cursorOf(p.newest, next))
	}
	c.out = append(c.out, '}')
	return c.send()
}

// sendItems appends the items of a list and its end to c.out. It sends what it has whenever that is
// partBytes, so that a reader that does not read takes no more memory than one item. size
// estimates the bytes of an item.
func sendItems[T any](c *call, items []T, size func(T) int, appendItem func([]byte, T) []byte) error {
	for i, item := range items {
		if i > 0 {
			c.out = append(c.out, ',')
		}
		if err := c.grow(size(item)); err != nil {
			return err
		}
		c.out = appendItem(c.out, item)
		if len(c.out) < partBytes {
			continue
		}
		if err := c.sendPart(); err != nil {
			return err
		}
	}
	c.out = append(c.out, ']')
	return nil
}

// partBytes is the size of the parts of a list.
const partBytes = 32 << 10

// listedBytes estimates the bytes of a job in a list.
func listedBytes(j *fsm.Job) int {
	x := j.Execution()
	return len(j.Payload()) + len(x.Result) + len(x.LastError) + len(j.Details().Log) + shortJob
}

// shortJob is the size of a job without payload in a list.
const shortJob = 256

// page waits until c may look for the items of a page. The caller calls built before it sends the
// page, because a reader may take as long as it likes.
func (s *Core) page(c *call) (built func(), err error) {
	select {
	case s.pages <- struct{}{}:
		return func() { <-s.pages }, nil
	case <-c.ctx.Done():
		return nil, c.ctx.Err()
	}
}

// pageOf returns the jobs of a page. If there may be more, next is the position after which
// they come.
func (s *jobs) pageOf(v *fsm.View, p *page) (jobs []*fsm.Job, next uint64) {
	bytes := 0
	next = s.walk(v, p, func(j *fsm.Job) bool {
		jobs = append(jobs, j)
		bytes += listedBytes(j)
		return len(jobs) < p.limit && bytes < s.cfg.Limits.ListBytes
	})
	return jobs, next
}

// walk calls fn for the jobs of a page until fn returns false, or the bounds of one request
// are reached. If there may be more, next is the position after which they come.
func (s *jobs) walk(v *fsm.View, p *page, fn func(*fsm.Job) bool) (next uint64) {
	seen, last, full := 0, p.after, false
	late := time.Now().Add(s.cfg.Timeouts.List)
	p.scan(v, func(j *fsm.Job) bool {
		if full || seen >= s.cfg.Limits.ListScan || seen%listStride == listStride-1 && time.Now().After(late) {
			next = last
			return false
		}
		seen++
		last = j.Seq
		full = p.matches(j) && !fn(j)
		return true
	})
	return next
}

// listStride is the number of jobs between two looks at the time.
const listStride = 16

// defaultStatuses are the statuses of jobs that have not ended: older clients know
// these as the whole list.
var defaultStatuses = []fsm.Status{fsm.Scheduled, fsm.Unclaimed, fsm.InProgress, fsm.Blocked}

// endedStatuses are the default of a list by the time of the end, which no other jobs have.
var endedStatuses = []fsm.Status{fsm.Completed, fsm.Dead, fsm.Cancelled}

var allStatuses = []fsm.Status{
	fsm.Scheduled, fsm.Unclaimed, fsm.InProgress, fsm.Completed, fsm.Dead, fsm.Cancelled, fsm.Blocked,
}

// listedType returns the type that v1.ParamType of a list names. A text that v1.QueueName does not
// make is a type: lists knew no other form before.
func listedType(given string) string {
	if jobType, ok := v1.QueueType(given); ok {
		return jobType
	}
	return given
}

func (s *jobs) readPage(c *call, q url.Values) (page, error) {
	p := page{
		statuses: defaultStatuses, tags: slices.DeleteFunc(slices.Clone(q[v1.ParamTag]), isEmpty), group: q.Get(v1.ParamGroup),
		worker: c.existing(q.Get(v1.ParamWorker), workerExists), batch: c.existing(q.Get(v1.ParamBatch), batchExists),
		cron: c.existing(q.Get(v1.ParamCron), cronExists),
	}
	if given := q.Get(v1.ParamType); given != "" {
		p.jobType = new(listedType(given))
	}
	for _, name := range []string{v1.ParamType, v1.ParamTag, v1.ParamGroup, v1.ParamWorker, v1.ParamBatch, v1.ParamCron} {
		for _, value := range q[name] {
			if err := checkParam(name, value); err != nil {
				return p, err
			}
		}
	}
	if len(p.tags) > tagsMax {
		return p, fail(badRequest, "%s occurs %d times in the query; at most %d tags are allowed", v1.ParamTag, len(p.tags), tagsMax)
	}
	var err error
	if names := q.Get(v1.ParamStatus); names != "" {
		if p.statuses, err = readStatuses(names); err != nil {
			return p, err
		}
	}
	for name, to := range map[string]*int64{
		v1.ParamCreatedFrom: &p.created.from, v1.ParamCreatedBefore: &p.created.before,
		v1.ParamFinishedFrom: &p.finished.from, v1.ParamFinishedBefore: &p.finished.before,
	} {
		if *to, err = readTime(q, name); err != nil {
			return p, err
		}
	}
	if q.Get(v1.ParamStatus) == "" && p.finished != (span{}) {
		p.statuses = endedStatuses
	}
	if p.search = q.Get(v1.ParamSearch); len(p.search) > searchMax {
		return p, fail(badRequest, "%s has %d bytes; at most %d are allowed", v1.ParamSearch, len(p.search), searchMax)
	}
	return p, s.readPlace(q, &p)
}

// readPlace reads order, size and beginning of a page.
func (s *jobs) readPlace(q url.Values, p *page) (err error) {
	switch given := q.Get(v1.ParamSort); given {
	case "", v1.SortOldest:
	case v1.SortNewest:
		p.newest = true
	default:
		return fail(badRequest, "%s is %q; must be %s (oldest first) or %s (newest first)", v1.ParamSort, shown(given), v1.SortOldest, v1.SortNewest)
	}
	if p.limit, err = s.readLimit(q); err != nil {
		return err
	}
	if given := q.Get(v1.ParamCursor); given != "" {
		if p.after, err = readCursor(p.newest, given); err != nil {
			return badCursor(given)
		}
	}
	return nil
}

// tagsMax bounds the number of tags to compare with each job of a list.
const tagsMax = 20

func isEmpty(text string) bool { return text == "" }

func badCursor(given string) error {
	return fail(badRequest, "%s is %q; must be the nextCursor of an earlier answer of the same sort", v1.ParamCursor, shown(given))
}

// checkParam checks a name in the query. Names in legacy documents may be longer than those of
// new jobs.
func checkParam(name, value string) error {
	if len(value) > pathIDMax {
		return fail(badRequest, "%s has %d bytes; at most %d are allowed", name, len(value), pathIDMax)
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
		return 0, fail(badRequest, "%s is %q; must be a time in milliseconds since 1970, at least %d: a smaller number is in seconds",
			name, shown(given), secondsBelow)
	}
	return ms, nil
}

// readLimit returns the maximum number of items of a page.
func (s *Core) readLimit(q url.Values) (int, error) {
	most := s.cfg.Limits.ListJobs
	given := q.Get(v1.ParamLimit)
	if given == "" {
		return most, nil
	}
	n, err := strconv.Atoi(given)
	if err != nil || n < 1 {
		return 0, fail(badRequest, "%s is %q; must be a number from 1 to %d", v1.ParamLimit, shown(given), most)
	}
	return min(n, most), nil
}

// readNamePage reads the requested part of a list by name.
func (s *Core) readNamePage(q url.Values) (limit int, after afterName, err error) {
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
		name = strings.TrimSpace(name)
		if name == v1.StatusAll {
			return nil, fail(badRequest, "status is %q; %s cannot be combined with other names", shown(names), v1.StatusAll)
		}
		st, ok := fsm.ParseStatus(v1.StatusOf(name))
		if !ok {
			return nil, fail(badRequest, "unknown status %q; use %s or %s, separated by commas", shown(name),
				v1.StatusAll, strings.Join(statusNames(), ", "))
		}
		statuses = append(statuses, st)
		if len(statuses) > len(allStatuses) {
			return nil, fail(badRequest, "status has more than %d names, the number of statuses; name each once", len(allStatuses))
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

// The first byte of a cursor into a list of jobs; the position of the last job follows.
const (
	cursorForm       = 1
	cursorFormNewest = 3 // newest first
)

var errCursor = errors.New("not a cursor")

func formOf(newest bool) byte {
	if newest {
		return cursorFormNewest
	}
	return cursorForm
}

func cursorOf(newest bool, after uint64) string {
	return base64.RawURLEncoding.EncodeToString(binary.AppendUvarint([]byte{formOf(newest)}, after))
}

// readCursor reads a cursor of a list in the same order.
func readCursor(newest bool, given string) (uint64, error) {
	raw, err := base64.RawURLEncoding.DecodeString(given)
	if err != nil {
		return 0, err
	}
	if len(raw) < 2 || raw[0] != formOf(newest) {
		return 0, errCursor
	}
	after, n := binary.Uvarint(raw[1:])
	if n != len(raw)-1 {
		return 0, errCursor
	}
	return after, nil
}
