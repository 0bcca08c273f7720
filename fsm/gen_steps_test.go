package fsm_test

import (
	"bytes"
	"fmt"

	"pgregory.net/rapid"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

var (
	stepNames   = []string{"s1", "s2", "s3"}
	signalNames = []string{"go", "stop"}
)

// wait is a job that was suspended for a signal.
type wait struct{ job, signal string }

// learnWaits notes the job that a mutation has suspended, or the artefact that it has reserved.
func (w *workload) learnWaits(mut *fsmpb.Mutation, r fsm.Result) {
	if op := mut.GetSuspend(); op.GetSignal() != "" && r.Code == fsm.OK {
		w.suspended = lastOf(append(w.suspended, wait{op.Lease.JobId, op.Signal}), 4)
	}
	if op := mut.GetReserveArtefact(); op != nil && r.Code == fsm.OK {
		w.files = lastOf(append(w.files, op.Id), 6)
	}
}

func (w *workload) storeStep(t *rapid.T) *fsmpb.Mutation {
	worker, l := w.report(t)
	return owned(t, &fsmpb.Mutation{Op: &fsmpb.Mutation_StoreStep{StoreStep: &fsmpb.StoreStep{
		Worker: worker, Lease: l, Name: pick(t, stepNames, "step"), Value: w.value(t),
	}}})
}

func (w *workload) value(t *rapid.T) []byte {
	return pick(t, [][]byte{nil, []byte("1"), []byte(`"more than any quota of the tests has room for"`)}, "value")
}

// reserveArtefact reserves few bytes for a time that often ends.
func (w *workload) reserveArtefact(t *rapid.T) *fsmpb.Mutation {
	op := &fsmpb.ReserveArtefact{
		Id: fmt.Sprint("file", roll(t, 300, "file")), Size: int64(roll(t, 200, "size")), Sum: bytes.Repeat([]byte{7}, 32), UntilMs: w.later(t),
		Sealed: once(t, 4, "sealed"), Quota: w.recordQuota(t),
	}
	if len(w.files) > 0 && once(t, 12, "an id that is taken") {
		op.Id = pick(t, w.files, "file")
	}
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_ReserveArtefact{ReserveArtefact: op}}
}

// file is mostly an artefact that was reserved a short time ago.
func (w *workload) file(t *rapid.T) string {
	if len(w.files) > 0 && !once(t, 12, "any file") {
		return pick(t, w.files, "file")
	}
	return fmt.Sprint("file", roll(t, 300, "file"))
}

// filesOf names artefacts for a new job.
func (w *workload) filesOf(t *rapid.T) (list []*fsmpb.NamedArtefact) {
	for _, name := range []string{"n1", "n2"}[:1+roll(t, 2, "artefacts")] {
		list = append(list, &fsmpb.NamedArtefact{Name: name, Id: w.file(t)})
	}
	return list
}

func (w *workload) attachArtefact(t *rapid.T) *fsmpb.Mutation {
	worker, l := w.report(t)
	return owned(t, attachArtefact(worker, l.JobId, l.Token, pick(t, []string{"n1", "n2"}, "name"), w.file(t)))
}

func (w *workload) dropArtefacts(t *rapid.T) *fsmpb.Mutation {
	return dropArtefacts(w.file(t), w.file(t), w.file(t))
}

// suspend waits for a time, mostly with a signal, or for a batch.
func (w *workload) suspend(t *rapid.T) *fsmpb.Mutation {
	worker, l := w.report(t)
	op := &fsmpb.Suspend{Worker: worker, Lease: l}
	if once(t, 3, "until a batch ends") {
		op.Batch = w.someBatch(t)
	} else {
		op.UntilMs = w.later(t)
		op.Signal = pick(t, []string{"go", "stop", "go", ""}, "signal")
	}
	return owned(t, &fsmpb.Mutation{Op: &fsmpb.Mutation_Suspend{Suspend: op}})
}

// later is a valid time, mostly in the near future.
func (w *workload) later(t *rapid.T) int64 {
	return max(sum(w.now, odd(t, rapid.SampledFrom([]int64{100, 20, 300, 5, 0, -10}), "until")), 1)
}

// someBatch is mostly one that was made.
func (w *workload) someBatch(t *rapid.T) string {
	batch := pick(t, batchIDs, "batch")
	for _, other := range batchIDs {
		if w.batches[batch] == nil && !once(t, 25, "any batch") {
			batch = other
		}
	}
	return batch
}

// sendSignal is mostly for a job that is there, and often for one that awaits it.
func (w *workload) sendSignal(t *rapid.T) *fsmpb.Mutation {
	op := &fsmpb.SendSignal{JobId: w.someJob(t, nil), Name: pick(t, signalNames, "signal"), Value: w.value(t)}
	if len(w.suspended) > 0 && once(t, 2, "awaited") {
		one := pick(t, w.suspended, "suspended")
		op.JobId, op.Name = one.job, one.signal
	}
	if once(t, 8, "this job") {
		op.Seq = w.someSeq(t)
	}
	if once(t, 3, "with an id") {
		op.Id = fmt.Sprint("i", roll(t, 2, "signal id"))
	}
	if len(w.links) > 0 && once(t, 3, "by a link") {
		l := pick(t, w.links, "link")
		op.JobId, op.Link = l.JobId, l.Hash
		if !once(t, 4, "another name") {
			op.Name = l.Signal
		}
	}
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_SendSignal{SendSignal: op}}
}

func (w *workload) makeLink(t *rapid.T) *fsmpb.Mutation {
	op := &fsmpb.MakeLink{
		JobId: w.someJob(t, nil), Signal: pick(t, signalNames, "signal"), Hash: bytes.Repeat([]byte{byte(roll(t, 3, "hash"))}, 32),
		UntilMs: w.later(t),
	}
	if len(w.links) > 0 && once(t, 3, "again") {
		last := pick(t, w.links, "link")
		op.JobId, op.Hash = last.JobId, last.Hash
	}
	if once(t, 8, "this job") {
		op.Seq = w.someSeq(t)
	}
	w.links = lastOf(append(w.links, op), 4)
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_MakeLink{MakeLink: op}}
}

// flow enqueues a batch of jobs that run after each other in one of two shapes, claims some, and mostly ends the first attempt.
func (w *workload) flow(t *rapid.T) []*fsmpb.Mutation {
	w.flows = append(w.flows, fmt.Sprint("f", roll(t, 1000, "flow")))
	w.flows = lastOf(w.flows, 3)
	id := w.flows[len(w.flows)-1]
	after := pick(t, [][4][]string{{nil, {"a"}, {"a"}, {"b", "c"}}, {nil, {"a"}, {"b"}, {"a", "c"}}}, "shape")
	op := &fsmpb.Enqueue{NewBatch: &fsmpb.NewBatch{Id: id, CallbackOn: uint32(roll(t, 3, "callback on"))}}
	for i, name := range []string{"a", "b", "c", "d"} {
		n := &fsmpb.NewJob{Id: id + name, Type: pick(t, jobTypes[1:3], "type"), Options: &fsmpb.Options{Batch: id, Step: name, AfterFailure: uint32(roll(t, 4, "after failure"))}, LeaseMs: 50, Priority: 9}
		for _, on := range after[i] {
			n.Optional().After = append(n.Options.GetAfter(), id+on)
		}
		if once(t, 4, "in a sequence") {
			n.Optional().Sequence = pick(t, []string{"s", "t"}, "sequence")
		}
		if once(t, 8, "expires") {
			n.Optional().StartBeforeMs = w.later(t)
		}
		if once(t, 6, "unique") {
			n.Optional().Unique = &fsmpb.Unique{Key: pick(t, []string{"k0", "f"}, "key"), Scope: uint32(roll(t, 4, "scope")), PeriodMs: 50}
		}
		op.Jobs = append(op.Jobs, n)
	}
	muts := []*fsmpb.Mutation{{Op: &fsmpb.Mutation_Enqueue{Enqueue: op}}, claim("w1", 1+uint32(roll(t, 3, "max")))}
	switch roll(t, 5, "its first job") {
	case 4:
		if once(t, 3, "the signal comes first") {
			muts = append(muts, sendSignal(id+"a", pick(t, signalNames, "signal"), "", "1"))
		}
		muts = append(muts, suspend("w1", id+"a", 0, w.later(t), pick(t, signalNames, "signal")))
	case 3:
		muts = append(muts, suspendUntilEnd("w1", id+"a", 0, w.someBatch(t)))
	case 2:
		muts = append(muts, complete("w1", id+"a", 0))
	case 1:
		muts = append(muts, fail("w1", id+"a", 0, "boom", true))
	}
	return muts
}

// story is mutations about one job whose outcome is rare otherwise.
func (w *workload) story(t *rapid.T) []*fsmpb.Mutation {
	id := fmt.Sprint("x", roll(t, 1000, "story"))
	enqueue := enqueueType("story", id)
	n := enqueue.GetEnqueue().Jobs[0]
	edit := &fsmpb.EditJob{Id: id, Retry: true, Payload: make([]byte, 40), Quota: &fsmpb.Quota{Account: "q1", MaxBytes: 1}}
	again := &fsmpb.Mutation{Op: &fsmpb.Mutation_EditJob{EditJob: edit}}
	switch roll(t, 4, "of") {
	case 3: // an artefact takes the place of another one
		return []*fsmpb.Mutation{
			enqueue, claim("w1", 3, "story"), reserveArtefact(id, 7, w.later(t), nil), reserveArtefact(id+"b", 9, w.later(t), nil),
			attachArtefact("w1", id, 0, "n1", id), attachArtefact("w1", id, 0, "n1", id), attachArtefact("w1", id, 0, "n1", id+"b"),
		}
	case 2: // a link is used
		link := makeLink(id, "go", bytes.Repeat([]byte{9}, 32), w.later(t))
		signal := sendSignal(id, "go", "", "1")
		signal.GetSendSignal().Link = link.GetMakeLink().Hash
		return []*fsmpb.Mutation{enqueue, link, signal}
	case 1: // its account has no room for more
		n.Quota = &fsmpb.Quota{Account: "q1"}
		return []*fsmpb.Mutation{enqueue, again}
	}
	// another job has its key
	n.Optional().Unique = &fsmpb.Unique{Key: id, Scope: uint32(fsm.UniqueActive)}
	other := enqueueType("story", id+"b")
	other.GetEnqueue().Jobs[0].Optional().Unique = n.Options.GetUnique()
	return []*fsmpb.Mutation{enqueue, changeOf(fsm.CancelJobs, id), other, again, changeOf(fsm.RetryJobs, id)}
}

// retryFlow is mostly of a job that is in a batch with others.
func (w *workload) retryFlow(t *rapid.T) *fsmpb.Mutation {
	op := &fsmpb.RetryFlow{JobId: w.someJob(t, nil), Fresh: once(t, 3, "fresh")}
	if len(w.flows) > 0 && !once(t, 4, "any job") {
		op.JobId = pick(t, w.flows, "of flow") + pick(t, []string{"a", "b", "c", "d"}, "step")
	}
	if once(t, 12, "this job") {
		op.Seq = w.someSeq(t)
	}
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_RetryFlow{RetryFlow: op}}
}
