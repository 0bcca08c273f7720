package fsm_test

import (
	"fmt"
	"math"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

// change is of jobs by their ids, or by a filter from where the last one
// stopped.
func (w *workload) change(t *rapid.T) *fsmpb.Mutation {
	op := &fsmpb.Change{Kind: uint32(pick(t, changeKinds, "change")), Fresh: once(t, 3, "fresh")}
	if rapid.Bool().Draw(t, "by filter") {
		op.Filter, op.Limit = w.filter(t), pick(t, []uint32{1, 2, 0, 5, math.MaxUint32}, "limit")
	} else {
		for range 1 + roll(t, 4, "ids") {
			op.Ids = append(op.Ids, w.someJob(t, nil))
		}
		if once(t, 4, "these jobs") {
			for range op.Ids {
				op.Seqs = append(op.Seqs, w.someSeq(t))
			}
		}
	}
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_Change{Change: op}}
}

// editJob changes one or two fields, mostly of a job that is there.
func (w *workload) editJob(t *rapid.T) *fsmpb.Mutation {
	op := &fsmpb.EditJob{Id: w.someJob(t, nil), Retry: once(t, 3, "retry")}
	if once(t, 2, "quota") {
		op.Quota = &fsmpb.Quota{Account: pick(t, []string{"q1", "q2"}, "account"), MaxBytes: pick(t, []int64{1, 3, 20}, "quota bytes")}
	}
	if once(t, 6, "this job") {
		op.Seq = w.someSeq(t)
	}
	if once(t, 4, "revision") {
		revision := uint64(roll(t, 3, "edits"))
		op.Revision = &revision
	}
	for range roll(t, 3, "fields") {
		switch roll(t, 6, "field") {
		case 0:
			op.Payload = pick(t, [][]byte{{}, []byte("1"), []byte("12"), []byte("123456789")}, "payload")
		case 1:
			priority := int32(roll(t, 3, "priority"))
			op.Priority = &priority
		case 2:
			at := odd(t, rapid.SampledFrom([]int64{0, w.now - 10, w.now, w.now + 10, w.now + 100}), "run at")
			op.RunAtMs = &at
		case 3:
			op.Tags = &fsmpb.Tags{Tags: rapid.SliceOfN(rapid.SampledFrom(tags), 0, 3).Draw(t, "tags")}
		case 4:
			attempts := int32(roll(t, 3, "max attempts"))
			op.MaxAttempts = &attempts
		case 5:
			op.Limits = &fsmpb.Limits{Limits: pick(t, limitSets, "limits")}
		}
	}
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_EditJob{EditJob: op}}
}

// someSeq is that of a young job, as the leader gives it, or of none.
func (w *workload) someSeq(t *rapid.T) uint64 {
	return 1 + uint64(roll(t, max(len(w.known), 1), "seq"))
}

var changeKinds = []fsm.ChangeKind{fsm.CancelJobs, fsm.RetryJobs, fsm.DeleteJobs}

// filter names one or two things, so that it matches often.
func (w *workload) filter(t *rapid.T) *fsmpb.Filter {
	f := &fsmpb.Filter{}
	for range roll(t, 3, "names") {
		switch roll(t, 8, "by") {
		case 0, 1:
			f.Statuses = append(f.Statuses, uint32(pick(t, allStatuses, "status")), uint32(pick(t, allStatuses, "status")))
		case 2:
			typ := pick(t, jobTypes, "type")
			f.Type = &typ
		case 3:
			f.Tag = pick(t, tags, "tag")
		case 4:
			group := pick(t, groups, "group")
			f.Group = &group
		case 5:
			f.Batch = pick(t, batchIDs, "batch")
		case 6:
			worker := w.worker(t)
			f.Worker = &worker
		case 7:
			f.CreatedFromMs = sum(w.now, -odd(t, rapid.Int64Range(0, 300), "from"))
			f.CreatedBeforeMs = sum(w.now, -odd(t, rapid.Int64Range(0, 100), "before"))
		}
	}
	if once(t, 3, "go on") {
		f.AfterStatus, f.AfterSeq = uint32(w.cursor.Status), w.cursor.Seq
	}
	return f
}

// setQueue changes a few members; most limits are lifted again soon.
func (w *workload) setQueue(t *rapid.T) *fsmpb.Mutation {
	op := &fsmpb.SetQueue{Name: pick(t, jobTypes, "type"), Remove: once(t, 6, "remove")}
	number := func(label string, values ...int64) *int64 {
		v := odd(t, rapid.SampledFrom(values), label)
		return &v
	}
	for range roll(t, 4, "members") {
		switch roll(t, 18, "member") {
		case 16:
			op.RetainDeadMs = number("retain dead", 50, 200, 0, -1)
		case 17:
			op.RetainDeadCount = number("retain dead count", 2, 1, 0, -1)
		case 0:
			paused := once(t, 3, "paused")
			if op.Paused = &paused; paused && !op.Remove && once(t, 2, "described") {
				op.Pause = &fsmpb.Pause{Reason: pick(t, []string{"", "down"}, "reason"), By: pick(t, []string{"", "ann"}, "by")}
				if once(t, 2, "until") {
					op.Pause.UntilMs = max(sum(w.now, odd(t, rapid.Int64Range(-5, 60), "pause")), 0)
				}
			} else {
				op.Pause = nil
			}
		case 1:
			op.MaxRunning = number("running", 1, 2, -1, 0)
		case 2, 3:
			op.MaxRunningPerGroup = number("per group", 1, 2, -1, 0)
		case 4, 5:
			op.RateMilli = number("rate", 100_000, 20_000, 1_000_000, 333, 0, -1)
			op.Burst = number("burst", 1, 3, 0, -1)
		case 6:
			op.LeaseMs = number("lease", 20, 100, -1, 0)
			op.AgingMs = number("aging", 10, 100, 1, -1, 0)
		case 7:
			op.TimeoutMs = number("timeout", 10, 50, -1, 0)
		case 8:
			op.MaxAttempts = number("attempts", 1, 2, 0, -1)
		case 9:
			op.Backoff = w.backoff(t)
		case 10:
			op.RetainMs = number("retain", 50, 200, 0, -1)
		case 11:
			op.RetainCount = number("retain count", 1, 3, 0, -1)
		case 12:
			op.MaxJobs = number("jobs", 5, 10, -1, 0)
		case 13:
			op.MaxBytes = number("bytes", 5, 20, -1, 0)
		case 14:
			op.MaxPayload = number("payload", 1, 2, -1, 0)
		case 15:
			op.Burst = number("burst", 2, -1)
		}
	}
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_SetQueue{SetQueue: op}}
}

// setRate limits the rate of a type to one claim in some ms, without other limits.
func (w *workload) setRate(t *rapid.T) *fsmpb.Mutation {
	rate, burst, running := pick(t, []int64{20_000, 100_000}, "rate"), int64(1), int64(0)
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_SetQueue{SetQueue: &fsmpb.SetQueue{
		Name: pick(t, jobTypes, "type"), RateMilli: &rate, Burst: &burst, MaxRunning: &running, MaxRunningPerGroup: &running,
	}}}
}

// soon is a time that a schedule may have next; 0 is never.
func (w *workload) soon(t *rapid.T, name string) int64 {
	next := sum(w.now, odd(t, rapid.Int64Range(0, 60), "next"))
	if once(t, 15, "never") {
		next = 0
	}
	if w.nextAt == nil {
		w.nextAt = make(map[string]int64)
	}
	w.nextAt[name] = next
	return next
}

func (w *workload) putCron(t *rapid.T) *fsmpb.Mutation {
	name := pick(t, cronNames, "cron")
	n := w.content(t, roll(t, idCount, "like"))
	switch roll(t, 10, "job") {
	case 9:
		n.Optional().Batch = pick(t, batchIDs, "batch")
	case 8:
		n.Optional().After = []string{w.someJob(t, nil)}
	case 7:
		n.Optional().Headers = []*fsmpb.Header{{Name: "a", Value: "1"}, {Name: "osqueue-scheduled-at", Value: "never"}, {Name: "z"}}
	}
	op := &fsmpb.PutCron{
		Name: name, Spec: pick(t, []string{"@hourly", "* * * * *"}, "spec"), TimeZone: pick(t, []string{"", "Europe/Berlin"}, "zone"),
		Job: n, Overlap: uint32(roll(t, 2, "overlap")), Missed: uint32(roll(t, 3, "missed")),
		Paused: once(t, 6, "paused"), NextMs: w.soon(t, name),
		StartMs: pick(t, []int64{0, 0, 0, 1000}, "start"), EndMs: pick(t, []int64{0, 0, 0, math.MaxInt64}, "end"),
		JitterMs: pick(t, []int64{0, 0, 1, 50, -1, math.MaxInt64}, "jitter"), MaxFires: pick(t, []uint64{0, 0, 1, 3}, "max fires"),
	}
	if w.specs == nil {
		w.specs = make(map[string]*fsmpb.PutCron)
	}
	if old := w.specs[name]; old != nil && !once(t, 3, "another time") {
		op.Spec, op.TimeZone, op.StartMs, op.EndMs = old.Spec, old.TimeZone, old.StartMs, old.EndMs
	}
	w.specs[name] = op
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_PutCron{PutCron: proto.CloneOf(op)}}
}

// reckonedBy is that by which the leader reckoned a next time, if it says so: mostly what the schedule has.
func (w *workload) reckonedBy(t *rapid.T, name string) (spec, zone *string, start, end *int64) {
	last := w.specs[name]
	if last == nil || once(t, 4, "not said") {
		return nil, nil, nil, nil
	}
	spec, zone, start, end = &last.Spec, &last.TimeZone, &last.StartMs, &last.EndMs
	switch other, at := "other", int64(77); roll(t, 16, "reckoned by") {
	case 15:
		start = &at
	case 14:
		end = &at
	case 11:
		spec = &other
	case 10:
		zone = &other
	case 9:
		zone, end = nil, nil
	}
	return spec, zone, start, end
}

func (w *workload) pauseCron(t *rapid.T) *fsmpb.Mutation {
	name := pick(t, cronNames, "cron")
	op := &fsmpb.PauseCron{Name: name, Paused: rapid.Bool().Draw(t, "paused"), NextMs: w.soon(t, name)}
	op.Spec, op.TimeZone, op.StartMs, op.EndMs = w.reckonedBy(t, name)
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_PauseCron{PauseCron: op}}
}

func (w *workload) deleteCron(t *rapid.T) *fsmpb.Mutation {
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_DeleteCron{DeleteCron: &fsmpb.DeleteCron{Name: pick(t, cronNames, "cron")}}}
}

// cronJobID is mostly a fresh id.
func (w *workload) cronJobID(t *rapid.T) string {
	switch roll(t, 20, "job id") {
	case 19:
		return ""
	case 18, 17:
		return jobID(roll(t, idCount, "id"))
	}
	return fmt.Sprintf("f%03d", roll(t, 1000, "id"))
}

func (w *workload) fireCron(t *rapid.T) *fsmpb.Mutation {
	name := pick(t, cronNames, "cron")
	due := w.nextAt[name]
	if once(t, 8, "not due") {
		due = sum(due, pick(t, []int64{1, -1}, "off by"))
	}
	return w.fire(t, name, due)
}

// fire returns the leader's proposal for a schedule whose next time is due.
func (w *workload) fire(t *rapid.T, name string, due int64) *fsmpb.Mutation {
	op := &fsmpb.FireCron{Name: name, DueMs: due, AtMs: due, JobId: w.cronJobID(t)}
	if once(t, 3, "missed some") {
		op.AtMs, op.Missed = max(due, sum(w.now, -pick(t, []int64{0, 5, 60_001, 60_000}, "late"))), uint64(1+roll(t, 3, "missed"))
	}
	op.NextMs = w.soon(t, name)
	op.Spec, op.TimeZone, op.StartMs, op.EndMs = w.reckonedBy(t, name)
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_FireCron{FireCron: op}}
}

func (w *workload) triggerCron(t *rapid.T) *fsmpb.Mutation {
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_TriggerCron{TriggerCron: &fsmpb.TriggerCron{
		Name: pick(t, cronNames, "cron"), JobId: w.cronJobID(t),
	}}}
}

// group is several reports, and now and then something else, as one.
func (w *workload) group(t *rapid.T) *fsmpb.Mutation {
	op := &fsmpb.Group{}
	for range roll(t, 5, "members") {
		kinds := []drawn{w.complete, w.fail, w.heartbeat, w.release, w.storeStep, w.suspend}
		if once(t, 8, "other") {
			kinds = []drawn{w.enqueue, w.claim, w.change, w.setQueue, w.triggerCron, w.workerDead, w.announce, w.throttleLimit, w.setLimit}
		}
		op.Mutations = append(op.Mutations, pick(t, kinds, "member")(t))
	}
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_Group{Group: op}}
}
