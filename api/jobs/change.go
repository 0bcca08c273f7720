package jobs

import (
	"encoding/binary"
	"fmt"
	"strconv"

	"google.golang.org/protobuf/proto"

	"osqueue/api/core"
	v1 "osqueue/client/api/v1"
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

// changeOne is POST /v1/jobs/{id}/cancel and …/retry, and DELETE /v1/jobs/{id}.
func (s *jobs) changeOne(kind fsm.ChangeKind) func(*core.Call) error {
	return func(c *core.Call) error {
		res, err := s.Propose(c, changeOf(&fsmpb.Change{Kind: uint32(kind), Ids: []string{c.Name}}))
		if err != nil {
			return err
		}
		if len(res.Codes) != 1 {
			return res.Code.Err()
		}
		if err := res.Codes[0].Err(); err != nil {
			return wrongStatus(err, res.Jobs)
		}
		return sendChanged(c, res.Jobs[0], res.Codes[0], stopping(kind, res.Jobs[0]), 0)
	}
}

// wrongStatus adds to a refusal for its status which one the job has.
func wrongStatus(err error, jobs []*fsm.Job) error {
	f := core.FailureOf(err)
	if f.Tag != v1.TagWrongStatus || len(jobs) != 1 || jobs[0] == nil {
		return err
	}
	out := *f
	out.Detail = fmt.Sprintf("%s; it is %s", f.Detail, jobs[0].Status)
	return &out
}

// edit is PATCH /v1/jobs/{id}.
func (s *jobs) edit(c *core.Call, in *v1.EditJob) error {
	fields := v1.NewJob{MaxAttempts: in.MaxAttempts, Tags: in.Tags, Limits: in.Limits}
	if in.RunAt != nil {
		fields.RunAt = *in.RunAt
	}
	if in.DelayMs != nil {
		fields.DelayMs = *in.DelayMs
	}
	read, err := s.Reader.NewJob(&fields)
	if err != nil {
		return err
	}
	op := &fsmpb.EditJob{Id: c.Name, Retry: in.Retry, Payload: in.Payload, Priority: in.Priority, MaxAttempts: in.MaxAttempts}
	if in.RunAt != nil || in.DelayMs != nil {
		op.RunAtMs = &read.RunAtMs
	}
	if in.Tags != nil {
		op.Tags = &fsmpb.Tags{Tags: in.Tags}
	}
	if in.Limits != nil {
		op.Limits = &fsmpb.Limits{Limits: read.Options.GetLimits()}
	}
	if in.Revision != nil && *in.Revision < 0 {
		return core.Bad("revision", "is %d; must not be negative", *in.Revision)
	}
	if proto.Equal(op, &fsmpb.EditJob{Id: c.Name}) {
		return core.Fail(core.BadRequest, "the edit has no field to change")
	}
	if in.Revision != nil {
		op.Revision = new(uint64(*in.Revision))
	}
	res, err := s.Propose(c, &fsmpb.Mutation{Op: &fsmpb.Mutation_EditJob{EditJob: op}})
	if err != nil {
		return err
	}
	if err := res.Code.Err(); err != nil {
		return wrongStatus(err, res.Jobs)
	}
	return sendChanged(c, res.Jobs[0], res.Code, false, res.Count)
}

// sendChanged answers with a v1.Reported. The worker of a running job gets the
// request to stop with its next heartbeat.
func sendChanged(c *core.Call, job *fsm.Job, code fsm.Code, cancel bool, revision uint64) error {
	c.Out = core.LsnText(append(c.Out[:0], '{'), c.Lsn)
	if job != nil {
		c.Out = core.Text(c.Out, "status", job.Status.String())
	}
	c.Out = core.FlagIf(c.Out, "duplicate", code == fsm.Duplicate)
	c.Out = core.FlagIf(c.Out, "cancel", cancel)
	c.Out = append(core.NumberIf(c.Out, "revision", int64(revision)), '}')
	return c.Send()
}

// stopping: the job runs, and a cancellation has just been requested, or was
// before. The remembered answer to a repeated request only has the status.
func stopping(kind fsm.ChangeKind, j *fsm.Job) bool {
	return kind == fsm.CancelJobs && j != nil && j.Status == fsm.InProgress
}

func changeOf(op *fsmpb.Change) *fsmpb.Mutation {
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_Change{Change: op}}
}

// changeMany is POST /v1/jobs/cancel, …/retry and …/delete.
func (s *jobs) changeMany(kind fsm.ChangeKind) func(*core.Call) error {
	return core.With(func(c *core.Call, in *v1.ChangeJobs) error {
		op, err := s.readChange(in)
		if err != nil {
			return err
		}
		if in.Fresh && kind != fsm.RetryJobs {
			return core.Bad("fresh", "belongs to a retry")
		}
		op.Kind, op.Fresh = uint32(kind), in.Fresh
		if f := op.Filter; f != nil {
			c.ActFor(&f.Batch, core.BatchExists)
			if f.Worker != nil {
				c.ActFor(f.Worker, core.WorkerExists)
			}
		}
		res, err := s.Commit(c, changeOf(op), nil)
		if err != nil {
			return err
		}
		c.Out = appendChanged(c.Out[:0], kind, in.IDs, res)
		c.Out = append(core.LsnText(c.Out, c.Lsn), '}')
		return c.Send()
	})
}

// appendChanged appends a v1.Changed, without the LSN and the end.
func appendChanged(b []byte, kind fsm.ChangeKind, ids []string, res fsm.Result) []byte {
	b = strconv.AppendUint(core.Key(append(b, '{'), "count"), res.Count, 10)
	if len(ids) > 0 {
		b = append(core.Key(b, "results"), '[')
		for i, code := range res.Codes {
			b = core.Text(append(core.Next(b), '{'), "jobId", ids[i])
			b = core.Text(b, "status", code.String())
			b = append(core.FlagIf(b, "cancel", code.Done() && stopping(kind, res.Jobs[i])), '}')
		}
		b = append(b, ']')
	}
	if res.Next != (fsm.Place{}) {
		b = core.Text(b, "nextCursor", placeCursorOf(res.Next))
	}
	return b
}

func (s *jobs) readChange(in *v1.ChangeJobs) (*fsmpb.Change, error) {
	switch {
	case len(in.IDs) > 0 && in.Filter != nil:
		return nil, core.Bad("filter", "cannot be combined with ids")
	case in.Filter != nil:
		return s.readFiltered(in)
	case len(in.IDs) == 0:
		return nil, core.Bad("ids", "is empty, and there is no filter; give ids or a filter")
	case in.Limit != 0:
		return nil, core.Bad("limit", "can only be combined with a filter, not with ids")
	case in.Cursor != "":
		return nil, core.Bad("cursor", "can only be combined with a filter, not with ids")
	}
	if err := s.Config.Limits.CheckMost("ids", len(in.IDs)); err != nil {
		return nil, err
	}
	for i, id := range in.IDs {
		if core.CheckJobID("", id) != nil {
			return nil, core.CheckJobID(fmt.Sprintf("ids[%d]", i), id)
		}
	}
	return &fsmpb.Change{Ids: in.IDs}, nil
}

func (s *jobs) readFiltered(in *v1.ChangeJobs) (*fsmpb.Change, error) {
	if in.Limit < 0 {
		return nil, core.Bad("limit", "is %d; must not be negative", in.Limit)
	}
	f, err := s.readFilter(in.Filter)
	if err != nil {
		return nil, err
	}
	if in.Cursor != "" {
		place, err := readPlaceCursor(in.Cursor)
		if err != nil {
			return nil, core.Bad("cursor", "is %q; must be the nextCursor of an earlier answer", core.Shown(in.Cursor))
		}
		f.AfterStatus, f.AfterSeq = uint32(place.Status), place.Seq
	}
	return &fsmpb.Change{Filter: f, Limit: uint32(min(in.Limit, s.Config.Limits.BatchJobs))}, nil
}

// readFilter requires a filter to have a condition: one that is empty by mistake would cancel
// or delete all jobs.
func (s *jobs) readFilter(in *v1.Filter) (*fsmpb.Filter, error) {
	f := &fsmpb.Filter{
		Type: in.Type, Tag: in.Tag, Group: in.Group, Batch: in.BatchID, Worker: in.WorkerID,
		CreatedFromMs: in.CreatedFrom, CreatedBeforeMs: in.CreatedBefore,
	}
	var err error
	if f.Statuses, err = filterStatuses(in.Statuses); err != nil {
		return nil, err
	}
	if err := s.checkFilter(in); err != nil {
		return nil, err
	}
	switch empty := len(f.Statuses) == 0 && namesNothing(in); {
	case empty && !in.All:
		return nil, core.Bad("filter", `is empty; set "all": true in it to match all jobs`)
	case !empty && in.All:
		return nil, core.Bad("filter.all", "cannot be combined with other fields of the filter")
	}
	return f, nil
}

func namesNothing(in *v1.Filter) bool {
	return in.Type == nil && in.Tag == "" && in.Group == nil && in.BatchID == "" && in.WorkerID == nil &&
		in.CreatedFrom == 0 && in.CreatedBefore == 0
}

func filterStatuses(names []string) ([]uint32, error) {
	if len(names) > len(allStatuses) {
		return nil, core.Bad("filter.statuses", "has %d names, but there are only %d statuses; name each once", len(names), len(allStatuses))
	}
	var out []uint32
	for i, name := range names {
		st, known := fsm.ParseStatus(v1.StatusOf(name))
		if !known {
			return nil, core.UnknownValue(fmt.Sprintf("filter.statuses[%d]", i), name, statusNames()...)
		}
		out = append(out, uint32(st))
	}
	return out, nil
}

func (s *jobs) checkFilter(in *v1.Filter) error {
	l := &s.Config.Limits
	for _, one := range []struct {
		member string
		value  *string
	}{
		{"filter.type", in.Type},
		{"filter.tag", &in.Tag},
		{"filter.group", in.Group},
		{"filter.batchId", &in.BatchID},
		{"filter.workerId", in.WorkerID},
	} {
		if one.value == nil {
			continue
		}
		if err := l.CheckName(one.member, *one.value); err != nil {
			return err
		}
	}
	// Jobs that were never claimed have no worker either.
	if in.WorkerID != nil && *in.WorkerID == "" {
		return core.Bad("filter.workerId", "is empty")
	}
	return checkPeriod("filter.createdFrom", in.CreatedFrom, "filter.createdBefore", in.CreatedBefore)
}

// checkPeriod is for two times, of which each may be absent.
func checkPeriod(fromName string, from int64, beforeName string, before int64) error {
	for _, one := range []struct {
		member string
		at     int64
	}{{fromName, from}, {beforeName, before}} {
		if one.at != 0 && one.at < core.SecondsBelow {
			return core.Bad(one.member, "is %d; must be a time in milliseconds since 1970", one.at)
		}
	}
	if before != 0 && from >= before {
		return core.Bad(beforeName, "is not after %s", fromName)
	}
	return nil
}

// placeCursorForm is the first byte of a cursor of a change; the position of the last job
// follows.
const placeCursorForm = 3

func placeCursorOf(p fsm.Place) string {
	return core.Cursor(placeCursorForm, binary.AppendUvarint([]byte{byte(p.Status)}, p.Seq))
}

func readPlaceCursor(given string) (fsm.Place, error) {
	raw, err := core.ReadCursor(placeCursorForm, given)
	if err != nil || len(raw) < 2 || fsm.Status(raw[0]).String() == "" {
		return fsm.Place{}, core.BadCursor(given)
	}
	seq, n := binary.Uvarint(raw[1:])
	if n != len(raw)-1 {
		return fsm.Place{}, core.BadCursor(given)
	}
	return fsm.Place{Status: fsm.Status(raw[0]), Seq: seq}, nil
}
