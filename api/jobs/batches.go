package jobs

import (
	"cmp"
	"crypto/sha256"
	"strconv"

	"github.com/google/uuid"

	"osqueue/api/core"
	v1 "osqueue/client/api/v1"
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

// createBatch is POST /v1/batches. A repetition with the same id adds the missing jobs.
func (s *jobs) createBatch(c *core.Call, in *v1.NewBatch) error {
	op, err := s.readNewBatch(c, in)
	if err != nil {
		return err
	}
	if err := s.CheckUploaded(c, op.Jobs); err != nil {
		return err
	}
	res, err := s.Propose(c, &fsmpb.Mutation{Op: &fsmpb.Mutation_Enqueue{Enqueue: op}})
	if err != nil {
		return err
	}
	if !res.Code.Done() {
		return s.refusedNewBatch(c, res, op.Jobs)
	}
	ids, duplicates := idsOf(op.Jobs, res)
	return c.SendJSON(&v1.BatchCreated{
		BatchID: op.NewBatch.Id, CallbackID: s.callbackID(c, op.NewBatch), JobIDs: ids, LSN: c.LsnText(), Duplicates: duplicates,
	})
}

// refusedNewBatch attributes a refusal to the batch itself if no job caused it.
func (s *jobs) refusedNewBatch(c *core.Call, res fsm.Result, jobs []*fsmpb.NewJob) error {
	err := s.refusedBatch(c, res, jobs)
	f := *core.FailureOf(err)
	if f.Index != nil || res.Code != fsm.IDTaken {
		return err
	}
	f.Detail = "the id belongs to another batch, with another callback; use a fresh id"
	return &f
}

// callbackID returns the id of the callback: that of the first request, if this
// request continues or repeats it. If the batch of a repeated request is removed,
// that id is lost.
func (s *jobs) callbackID(c *core.Call, n *fsmpb.NewBatch) string {
	if n.Callback == nil {
		return ""
	}
	b := s.Node.View().Batch(c.Owned(n.Id))
	switch {
	case b != nil && b.Callback != nil:
		return b.Callback.Id
	case c.Replayed:
		return ""
	}
	return n.Callback.Id
}

func (s *jobs) readNewBatch(c *core.Call, in *v1.NewBatch) (*fsmpb.Enqueue, error) {
	l := &s.Config.Limits
	if err := cmp.Or(l.CheckID("id", in.ID), l.CheckMost("jobs", len(in.Jobs))); err != nil {
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
	jobs, err := s.Reader.NewJobs(c, in.Jobs)
	if err != nil {
		return nil, err
	}
	for i, j := range jobs {
		o := j.Optional()
		if given := o.Batch; given != "" && given != n.Id {
			return nil, core.Blame(core.Bad("batchId", "is %q, but this request makes the batch %q; leave it out", core.Shown(given), n.Id), i)
		}
		o.Batch = n.Id
	}
	op := &fsmpb.Enqueue{Jobs: jobs, NewBatch: n}
	if err := s.readParent(in, op); err != nil {
		return nil, err
	}
	return op, s.readCallback(in.Callback, n)
}

// readParent reads the job whose children the jobs of a batch are.
func (s *jobs) readParent(in *v1.NewBatch, op *fsmpb.Enqueue) error {
	if in.Parent == nil {
		if in.WorkerID != nil {
			return core.Bad("workerId", "needs a parent")
		}
		return nil
	}
	worker, err := s.Config.Limits.Worker(in.WorkerID)
	if err = cmp.Or(err, core.CheckJobID("parent.jobId", in.Parent.JobID)); err != nil {
		return err
	}
	if in.Parent.Progress != nil {
		return core.Bad("parent.progress", "belongs to a heartbeat")
	}
	op.Parent = &fsmpb.Parent{Worker: worker, Lease: &fsmpb.Lease{JobId: in.Parent.JobID, Token: in.Parent.Token}}
	op.NewBatch.Parent = in.Parent.JobID
	return nil
}

func readCallbackOn(in *v1.NewBatch) (uint32, error) {
	on, err := core.Choice("callbackOn", in.CallbackOn, fsm.CallbackEnded, fsm.CallbackCompleted, fsm.CallbackFailed)
	if err == nil && in.CallbackOn != "" && in.Callback == nil {
		return 0, core.Bad("callbackOn", "needs a callback; give one, or leave callbackOn out")
	}
	return on, err
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
		{"uniqueFields", len(in.UniqueFields) > 0},
		{"after", len(in.After) > 0},
		{"afterFailure", in.AfterFailure != ""},
		{"afterBatches", len(in.AfterBatches) > 0},
		{"step", in.Step != ""},
		{"artefacts", len(in.Artefacts) > 0},
		{"delayMs", in.DelayMs != 0},
	} {
		if one.given {
			return core.Within(core.Bad(one.name, "cannot be set for a callback"), member)
		}
	}
	job, err := s.Reader.NewJob(in)
	if err != nil {
		return core.Within(err, member)
	}
	n.Callback = job
	return nil
}

// batchID returns the id of a batch whose id is optional. With an idempotency key the id is
// derived from the key, because a repeated request must get the same answer, and the machine
// does not remember the id.
func (s *jobs) batchID(c *core.Call, given string) (string, error) {
	switch {
	case given != "":
		return given, nil
	case c.Key != "":
		return s.keyedID(c), nil
	}
	return core.NewID()
}

// keyedTries bounds the search for a free id: each try stands for one earlier use of the same
// request and key, whose answer the machine has forgotten.
const keyedTries = 100

// keyedID returns an id that is the same for each repetition of a request with the same key,
// until the machine has forgotten the key.
func (s *jobs) keyedID(c *core.Call) string {
	v := s.Node.View()
	var id string
	for try := range keyedTries {
		id = hashedID([]byte(c.Key), c.In, []byte(strconv.Itoa(try)))
		old := v.Batch(c.Owned(id))
		if old == nil || old.CreatedAtMs+v.Meta().Settings.RequestMs >= s.Node.Now() {
			break
		}
	}
	return id
}

// hashedID derives an id in the usual form from its parts.
func hashedID(parts ...[]byte) string {
	h := sha256.New()
	for _, b := range parts {
		core.Part(h, b)
	}
	const version = 8 // RFC 9562: made by rules of one's own
	id := uuid.Nil
	copy(id[:], h.Sum(nil))
	id[6] = id[6]&0x0f | version<<4
	id[8] = id[8]&0x3f | 0x80
	return id.String()
}

// showBatch is GET /v1/batches/{id}.
func (s *jobs) showBatch(c *core.Call) error {
	id := c.OwnedName(core.BatchExists)
	v := c.View()
	b := v.Batch(c.Owned(id))
	if b == nil {
		return core.NotThere("batch", "the batch does not exist; it may have been removed after its retention time")
	}
	info := batchInfo(b)
	info.ID = c.Named(b.Id)
	return c.SendJSON(info)
}

func batchInfo(b *fsm.JobBatch) v1.BatchInfo {
	info := v1.BatchInfo{
		ID:        b.Id,
		CreatedAt: b.CreatedAtMs,
		EndedAt:   b.EndedAtMs,
		Total:     b.Total,
		Pending:   b.Pending(),
		Completed: b.Completed,
		Dead:      b.Dead,
		Cancelled: b.Cancelled,
		Called:    b.Called,
		ParentID:  b.Parent,
	}
	if b.Callback != nil {
		info.CallbackID, info.CallbackOn = b.Callback.Id, fsm.CallbackOn(b.CallbackOn).String()
	}
	return info
}

// listBatches is GET /v1/batches.
func (s *jobs) listBatches(c *core.Call) error {
	limit, from, err := s.ReadNamePage(c.Params)
	if err != nil {
		return err
	}
	v := c.View()
	list := v1.BatchList{Batches: []v1.BatchInfo{}, LSN: c.Lsn.String()}
	for b := range v.Batches(from) {
		if len(list.Batches) == limit {
			list.NextCursor = core.NameCursorOf(list.Batches[limit-1].ID)
			break
		}
		list.Batches = append(list.Batches, batchInfo(b))
	}
	return c.SendJSON(list)
}
