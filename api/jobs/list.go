package jobs

import (
	"encoding/binary"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"osqueue/api/core"
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
	switch {
	case p.newest:
		v.Newest(p.index(), p.statuses, p.after, fn)
	case p.index() == fsm.Index{Type: p.jobType} && p.worker != "" && !slices.ContainsFunc(p.statuses, func(s fsm.Status) bool { return s != fsm.InProgress }):
		v.HeldBy(p.worker, p.after)(fn)
	default:
		v.List(p.index(), p.statuses, p.after, fn)
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

// listJobs is GET /v1/jobs.
func (s *jobs) listJobs(c *core.Call) error {
	all := c.WantsAll()
	if all {
		c.Params.Del(v1.ParamLimit)
	}
	p, err := s.readPage(c, c.Params)
	if err != nil {
		return err
	}
	v := c.State().View()
	head, err := core.Marshal(s.StatsFor(c, v, p.jobType))
	if err != nil {
		return err
	}
	c.Lsn = v.LSN()
	// The figures and the jobs are fields of one object.
	c.Out = append(c.Out[:0], head[:len(head)-1]...)
	c.Out = append(core.Key(c.Out, "jobs"), '[')
	for size := 0; ; v = c.State().View() {
		built, err := s.Page(c)
		if err != nil {
			return err
		}
		jobs, bytes, next := s.pageOf(v, &p)
		built()
		if err := core.SendItems(c, size > 0, c.Seen(jobs), listedBytes, core.AppendJob); err != nil {
			return err
		}
		size, p.after = size+bytes, next
		if !all || next == 0 || size >= s.Config.Limits.AllBytes {
			break
		}
	}
	c.Out = append(c.Out, ']')
	if p.after != 0 {
		c.Out = core.Text(c.Out, "nextCursor", cursorOf(p.newest, p.after))
	}
	c.Out = append(c.Out, '}')
	return c.Send()
}

// listedBytes estimates the bytes of a job in a list.
func listedBytes(j *fsm.Job) int {
	x := j.Execution()
	return len(j.Payload()) + len(x.Result) + len(x.LastError) + len(j.Details().Log) + core.ShortJob
}

// pageOf returns the jobs of a page, and their bytes. If there may be more, next is the position after which
// they come.
func (s *jobs) pageOf(v *fsm.View, p *page) (jobs []*fsm.Job, bytes int, next uint64) {
	next = s.walk(v, p, func(j *fsm.Job) bool {
		jobs = append(jobs, j)
		bytes += listedBytes(j)
		return len(jobs) < p.limit && bytes < s.Config.Limits.ListBytes
	})
	return jobs, bytes, next
}

// walk calls fn for the jobs of a page until fn returns false, or the bounds of one request
// are reached. If there may be more, next is the position after which they come.
func (s *jobs) walk(v *fsm.View, p *page, fn func(*fsm.Job) bool) (next uint64) {
	seen, last, full := 0, p.after, false
	late := time.Now().Add(s.Config.Timeouts.List)
	p.scan(v, func(j *fsm.Job) bool {
		if full || seen >= s.Config.Limits.ListScan || seen%listStride == listStride-1 && time.Now().After(late) {
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
var endedStatuses = []fsm.Status{fsm.Completed, fsm.Dead, fsm.Cancelled, fsm.Expired}

var allStatuses = []fsm.Status{
	fsm.Scheduled, fsm.Unclaimed, fsm.InProgress, fsm.Completed, fsm.Dead, fsm.Cancelled, fsm.Blocked, fsm.Expired,
}

func (s *jobs) readPage(c *core.Call, q url.Values) (page, error) {
	p := page{
		statuses: defaultStatuses, tags: slices.DeleteFunc(slices.Clone(q[v1.ParamTag]), func(tag string) bool { return tag == "" }), group: q.Get(v1.ParamGroup),
		worker: c.Existing(q.Get(v1.ParamWorker), core.WorkerExists), batch: c.Existing(q.Get(v1.ParamBatch), core.BatchExists),
		cron: c.Existing(q.Get(v1.ParamCron), core.CronExists),
	}
	if given := q.Get(v1.ParamType); given != "" {
		p.jobType = new(core.ListedType(given))
	}
	for _, name := range []string{v1.ParamType, v1.ParamTag, v1.ParamGroup, v1.ParamWorker, v1.ParamBatch, v1.ParamCron} {
		for _, value := range q[name] {
			if err := checkParam(name, value); err != nil {
				return p, err
			}
		}
	}
	if len(p.tags) > tagsMax {
		return p, core.Fail(core.BadRequest, "%s occurs %d times in the query; at most %d tags are allowed", v1.ParamTag, len(p.tags), tagsMax)
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
		return p, core.Fail(core.BadRequest, "%s has %d bytes; at most %d are allowed", v1.ParamSearch, len(p.search), searchMax)
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
		return core.Fail(core.BadRequest, "%s is %q; must be %s (oldest first) or %s (newest first)", v1.ParamSort, core.Shown(given), v1.SortOldest, v1.SortNewest)
	}
	if p.limit, err = s.ReadLimit(q); err != nil {
		return err
	}
	if given := q.Get(v1.ParamCursor); given != "" {
		p.after, err = readCursor(p.newest, given)
	}
	return err
}

// tagsMax bounds the number of tags to compare with each job of a list.
const tagsMax = 20

// checkParam checks a name in the query. Names in legacy documents may be longer than those of
// new jobs.
func checkParam(name, value string) error {
	if len(value) > core.PathIDMax {
		return core.Fail(core.BadRequest, "%s has %d bytes; at most %d are allowed", name, len(value), core.PathIDMax)
	}
	if strings.IndexByte(value, 0) >= 0 {
		return core.Fail(core.BadRequest, "%s contains the character NUL", name)
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
	if err != nil || ms < core.SecondsBelow {
		return 0, core.Fail(core.BadRequest, "%s is %q; must be a time in milliseconds since 1970, at least %d: a smaller number is in seconds",
			name, core.Shown(given), core.SecondsBelow)
	}
	return ms, nil
}

func readStatuses(names string) ([]fsm.Status, error) {
	if names == v1.StatusAll {
		return allStatuses, nil
	}
	var statuses []fsm.Status
	for name := range strings.SplitSeq(names, ",") {
		name = strings.TrimSpace(name)
		if name == v1.StatusAll {
			return nil, core.Fail(core.BadRequest, "status is %q; %s cannot be combined with other names", core.Shown(names), v1.StatusAll)
		}
		st, ok := fsm.ParseStatus(v1.StatusOf(name))
		if !ok {
			return nil, core.Fail(core.BadRequest, "unknown status %q; use %s or %s, separated by commas", core.Shown(name),
				v1.StatusAll, strings.Join(statusNames(), ", "))
		}
		statuses = append(statuses, st)
		if len(statuses) > len(allStatuses) {
			return nil, core.Fail(core.BadRequest, "status has more than %d names, the number of statuses; name each once", len(allStatuses))
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

func formOf(newest bool) byte {
	if newest {
		return cursorFormNewest
	}
	return cursorForm
}

func cursorOf(newest bool, after uint64) string {
	return core.Cursor(formOf(newest), binary.AppendUvarint(nil, after))
}

// readCursor reads a cursor of a list in the same order.
func readCursor(newest bool, given string) (uint64, error) {
	raw, err := core.ReadCursor(formOf(newest), given)
	if err != nil {
		return 0, err
	}
	after, n := binary.Uvarint(raw)
	if n <= 0 || n != len(raw) {
		return 0, core.BadCursor(given)
	}
	return after, nil
}

// countJobs is GET /v1/stats/jobs. A count by statuses and type alone is read from the sizes of
// indexes; any other looks at the jobs, like a page of their list.
func (s *jobs) countJobs(c *core.Call) error {
	p, err := s.readPage(c, c.Params)
	if err != nil {
		return err
	}
	v := c.View()
	out := v1.JobCount{LSN: c.Lsn.String()}
	if p.counted() {
		out.Count = uint64(p.sum(v))
		return c.SendJSON(out)
	}
	next := s.walk(v, &p, func(*fsm.Job) bool {
		out.Count++
		return true
	})
	if next != 0 {
		out.NextCursor = cursorOf(p.newest, next)
	}
	return c.SendJSON(out)
}

// counted reports whether sum has the number of jobs.
func (p *page) counted() bool {
	return len(p.tags) == 0 && p.batch+p.group+p.worker+p.cron+p.search == "" &&
		p.created == span{} && p.finished == span{} && p.after == 0
}

// sum returns the number of jobs with the statuses, and the type, of the page.
func (p *page) sum(v *fsm.View) (n int) {
	counts, seen := v.Counts(), map[fsm.Status]bool{}
	for _, status := range p.statuses {
		switch {
		case seen[status]:
		case p.jobType != nil:
			n += v.CountOfType(*p.jobType, status)
		default:
			n += counts.Of(status)
		}
		seen[status] = true
	}
	return n
}

// searchMax bounds the text that a list looks for.
const searchMax = 256

// found reports whether the id, the type, a tag, the last error or the payload of j contains
// text. Letters of ASCII match in either case. A payload is compared as the JSON that it is.
func found(j *fsm.Job, text string) bool {
	o := j.Options()
	return containsFold(j.ID, text) || containsFold(j.Type, text) ||
		slices.ContainsFunc(o.Tags, func(tag string) bool { return containsFold(tag, text) }) ||
		containsFold(j.Execution().LastError, text) || containsFold(j.Payload(), text)
}

// containsFold reports whether hay contains text, which is not empty. It allocates nothing,
// because hay may be a payload of megabytes.
func containsFold[T string | []byte](hay T, text string) bool {
	first := lower(text[0])
	for i := 0; i+len(text) <= len(hay); i++ {
		if lower(hay[i]) == first && foldEqual(hay[i:i+len(text)], text) {
			return true
		}
	}
	return false
}

func foldEqual[T string | []byte](a T, b string) bool {
	for i := range len(b) {
		if lower(a[i]) != lower(b[i]) {
			return false
		}
	}
	return true
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}
