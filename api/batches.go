package api

import (
	"crypto/sha256"
	"net/http"
	"strconv"

	"github.com/google/uuid"

	v1 "osqueue/client/api/v1"
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

func (s *jobs) batchRoutes() []route {
	return []route{
		{method: http.MethodPost, path: v1.PathBatches, at: leaderOnly, handle: s.createBatch},
		{
			method: http.MethodGet, path: v1.PathBatches, at: upToDate, past: true, handle: s.listBatches,
			params: []string{v1.ParamLimit, v1.ParamCursor},
		},
		{method: http.MethodGet, path: v1.PathBatches + "/{id}", at: upToDate, past: true, handle: s.showBatch},
	}
}

// createBatch is POST /v1/batches. A repetition with the same id adds the missing jobs.
func (s *jobs) createBatch(c *call) error {
	var in v1.NewBatch
	if err := c.decode(&in); err != nil {
		return err
	}
	op, err := s.readNewBatch(c, &in)
	if err != nil {
		return err
	}
	res, err := s.propose(c, &fsmpb.Mutation{Op: &fsmpb.Mutation_Enqueue{Enqueue: op}})
	if err != nil {
		return err
	}
	if !res.Code.Done() {
		return s.refusedNewBatch(c, res, op.Jobs)
	}
	c.out = text(append(c.out[:0], '{'), "batchId", op.NewBatch.Id)
	c.out = textIf(c.out, "callbackId", s.callbackID(c, op.NewBatch))
	c.out = append(appendEnqueued(c.out, op.Jobs, res, c.lsn), '}')
	return c.send()
}

// refusedNewBatch attributes a refusal to the batch itself if no job caused it.
func (s *jobs) refusedNewBatch(c *call, res fsm.Result, jobs []*fsmpb.NewJob) error {
	err := s.refusedBatch(c, res, jobs)
	f := *failureOf(err)
	if f.index != nil || res.Code != fsm.IDTaken {
		return err
	}
	f.detail = "the id belongs to another batch, with another callback; use a fresh id"
	return &f
}

// callbackID returns the id of the callback: that of the first request, if this
// request continues or repeats it. If the batch of a repeated request is removed,
// that id is lost.
func (s *jobs) callbackID(c *call, n *fsmpb.NewBatch) string {
	if n.Callback == nil {
		return ""
	}
	b := s.b.View().Batch(c.owned(n.Id))
	switch {
	case b != nil && b.Callback != nil:
		return b.Callback.Id
	case c.replayed:
		return ""
	}
	return n.Callback.Id
}

func (s *jobs) readNewBatch(c *call, in *v1.NewBatch) (*fsmpb.Enqueue, error) {
	l := &s.cfg.Limits
	if err := l.checkID("id", in.ID); err != nil {
		return nil, err
	}
	if err := l.checkMost("jobs", len(in.Jobs)); err != nil {
		return nil, err
	}
	n := new(fsmpb.NewBatch)
	var err error
	if n.Id, err = s.batchID(c, in.ID); err != nil {
		return nil, err
	}
	if n.CallbackOn, err = readCallbackOn(in); err != nil {
		return nil, err
	}
	jobs, err := s.reader.newJobs(c, in.Jobs)
	if err != nil {
		return nil, err
	}
	for i, j := range jobs {
		if j.Batch != "" && j.Batch != n.Id {
			return nil, blame(bad("batchId", "is %q, but this request makes the batch %q; leave it out", shown(j.Batch), n.Id), i)
		}
		j.Batch = n.Id
	}
	return &fsmpb.Enqueue{Jobs: jobs, NewBatch: n}, s.readCallback(in.Callback, n)
}

func readCallbackOn(in *v1.NewBatch) (uint32, error) {
	switch in.CallbackOn {
	case "":
		return uint32(fsm.CallbackEnded), nil
	case v1.CallbackEnded, v1.CallbackCompleted:
	default:
		return 0, unknownValue("callbackOn", in.CallbackOn, v1.CallbackEnded, v1.CallbackCompleted)
	}
	if in.Callback == nil {
		return 0, bad("callbackOn", "needs a callback; give one, or leave callbackOn out")
	}
	if in.CallbackOn == v1.CallbackCompleted {
		return uint32(fsm.CallbackCompleted), nil
	}
	return uint32(fsm.CallbackEnded), nil
}

// readCallback reads the callback into n. It refuses fields that the machine would drop, or
// could not refuse when the callback is enqueued. It also refuses a delay, which would begin
// now.
func (s *jobs) readCallback(in *v1.NewJob, n *fsmpb.NewBatch) error {
	if in == nil {
		return nil
	}
	const member = "callback"
	for _, one := range []struct {
		name  string
		given bool
	}{
		{"batchId", in.BatchID != ""},
		{"uniqueKey", in.UniqueKey != ""},
		{"after", len(in.After) > 0},
		{"afterFailure", in.AfterFailure != ""},
		{"delayMs", in.DelayMs != 0},
	} {
		if one.given {
			return within(bad(one.name, "cannot be set for a callback"), member)
		}
	}
	job, err := s.reader.newJob(in)
	if err != nil {
		return within(err, member)
	}
	n.Callback = job
	return nil
}

// batchID returns the id of a batch whose id is optional. With an idempotency key the id is
// derived from the key, because a repeated request must get the same answer, and the machine
// does not remember the id.
func (s *jobs) batchID(c *call, given string) (string, error) {
	switch {
	case given != "":
		return given, nil
	case c.key != "":
		return s.keyedID(c), nil
	}
	return newID()
}

// keyedTries bounds the search for a free id: each try stands for one earlier use of the same
// request and key, whose answer the machine has forgotten.
const keyedTries = 100

// keyedID returns an id that is the same for each repetition of a request with the same key,
// until the machine has forgotten the key.
func (s *jobs) keyedID(c *call) string {
	v := s.b.View()
	var id string
	for try := range keyedTries {
		id = hashedID([]byte(c.key), c.in, []byte(strconv.Itoa(try)))
		old := v.Batch(c.owned(id))
		if old == nil || old.CreatedAt+v.Meta().Settings.RequestMs >= s.b.Now() {
			break
		}
	}
	return id
}

// hashedID derives an id in the usual form from its parts.
func hashedID(parts ...[]byte) string {
	h := sha256.New()
	for _, b := range parts {
		part(h, b)
	}
	const version = 8 // RFC 9562: made by rules of one's own
	id := uuid.Nil
	copy(id[:], h.Sum(nil))
	id[6] = id[6]&0x0f | version<<4
	id[8] = id[8]&0x3f | 0x80
	return id.String()
}

// showBatch is GET /v1/batches/{id}.
func (s *jobs) showBatch(c *call) error {
	id, err := c.objectVariable(batchExists)
	if err != nil {
		return err
	}
	v := c.state().View()
	c.lsn = v.LSN()
	b := v.Batch(c.owned(id))
	if b == nil {
		return notThere("batch", "the batch does not exist; it may have been removed after its retention time")
	}
	info := batchInfo(b)
	info.ID = c.named(b.ID)
	return c.sendJSON(info)
}

// notThere returns the refusal of a name that does not exist.
func notThere(what, detail string) error {
	k := failureOf(fsm.NotFound.Err()).kind
	k.title = "There is no such " + what
	return fail(k, "%s", detail)
}

func batchInfo(b *fsm.JobBatch) v1.BatchInfo {
	info := v1.BatchInfo{
		ID:        b.ID,
		CreatedAt: b.CreatedAt,
		EndedAt:   b.EndedAt,
		Total:     b.Total,
		Pending:   b.Pending(),
		Completed: b.Completed,
		Dead:      b.Dead,
		Cancelled: b.Cancelled,
		Called:    b.Called,
	}
	if b.Callback != nil {
		info.CallbackID, info.CallbackOn = b.Callback.Id, b.CallbackOn.String()
	}
	return info
}

// listBatches is GET /v1/batches.
func (s *jobs) listBatches(c *call) error {
	values, err := c.query()
	if err != nil {
		return err
	}
	limit, after, err := s.readNamePage(values)
	if err != nil {
		return err
	}
	v := c.state().View()
	c.lsn = v.LSN()
	list := v1.BatchList{Batches: []v1.BatchInfo{}, LSN: c.lsn.String()}
	v.Batches(after.from(), func(b *fsm.JobBatch) bool {
		if len(list.Batches) == limit {
			list.NextCursor = nameCursorOf(list.Batches[limit-1].ID)
			return false
		}
		list.Batches = append(list.Batches, batchInfo(b))
		return true
	})
	return c.sendJSON(list)
}
