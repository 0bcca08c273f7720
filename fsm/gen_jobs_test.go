package fsm_test

import (
	"fmt"
	"math"
	"slices"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"osqueue/fsm/fsmpb"
)

func (w *workload) enqueue(t *rapid.T) *fsmpb.Mutation {
	op := &fsmpb.Enqueue{}
	batch := ""
	if once(t, 4, "in a batch") {
		batch = pick(t, batchIDs, "batch")
		if !once(t, 4, "open it") {
			op.NewBatch = w.newBatch(t, batch)
		}
	}
	for range roll(t, 6, "jobs") {
		n := w.newJob(t, op)
		if batch != "" && !once(t, 4, "beside the batch") {
			n.Optional().Batch = batch
		}
		if len(w.files) > 0 && once(t, 4, "with artefacts") {
			n.Artefacts = w.filesOf(t)
		}
		op.Jobs = append(op.Jobs, n)
	}
	if once(t, 8, "a parent") {
		worker, l := w.report(t)
		op.Parent = &fsmpb.Parent{Worker: worker, Lease: l, Owner: pick(t, []uint64{0, 0, 1}, "owner")}
	}
	if once(t, 6, "a scope") {
		op.Scope = &fsmpb.Scope{
			Types:  pick(t, [][]string{nil, {"*"}, jobTypes[:1], jobTypes[1:]}, "scope of types"),
			Groups: pick(t, [][]string{nil, {"*"}, {"g1", "g2"}, {""}}, "scope of groups"),
		}
	}
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_Enqueue{Enqueue: op}}
}

// newBatch is mostly the same for the same id.
func (w *workload) newBatch(t *rapid.T, id string) *fsmpb.NewBatch {
	if b := w.batches[id]; b != nil && !once(t, 8, "another batch") {
		return proto.CloneOf(b)
	}
	b := &fsmpb.NewBatch{Id: id, CallbackOn: uint32(roll(t, 3, "callback on")), Quota: w.recordQuota(t)}
	if once(t, 6, "of a parent") {
		b.Parent = pick(t, []string{"p1", "p2"}, "parent")
	}
	if !once(t, 3, "no callback") {
		b.Callback = w.content(t, roll(t, idCount, "like"))
		b.Callback.Id = "call-" + id
		switch roll(t, 12, "callback") {
		case 11:
			b.Callback.Id = jobID(roll(t, idCount, "id"))
		case 10:
			b.Callback.Optional().Batch = pick(t, batchIDs, "batch")
		case 9:
			b.Callback.Optional().After, b.Callback.Optional().AfterBatches, b.Callback.Optional().Step = []string{w.someJob(t, nil)}, []string{"b1"}, "s1"
		}
	}
	if w.batches == nil {
		w.batches = make(map[string]*fsmpb.NewBatch)
	}
	w.batches[id] = b
	return proto.CloneOf(b)
}

// recordQuota is mostly none.
func (w *workload) recordQuota(t *rapid.T) *fsmpb.Quota {
	if !once(t, 8, "quota") {
		return nil
	}
	return &fsmpb.Quota{
		Account: pick(t, []string{"q1", "q2"}, "account"), MaxJobs: pick(t, []int64{0, 1, 3}, "quota jobs"),
		MaxBytes: pick(t, []int64{0, 300, 1000}, "quota bytes"),
	}
}

// newJob's content is mostly what the same id had before: then it is a
// repeated request.
func (w *workload) newJob(t *rapid.T, op *fsmpb.Enqueue) *fsmpb.NewJob {
	number := roll(t, idCount, "id")
	if n := w.contents[jobID(number)]; n != nil && w.meets(n.Options.GetAfter()) && !once(t, 5, "as new") {
		return proto.CloneOf(n)
	}
	n := w.content(t, number)
	if once(t, 4, "after") {
		for range 1 + roll(t, 3, "afters") {
			n.Optional().After = append(n.Options.GetAfter(), w.someJob(t, op))
		}
		n.Optional().AfterFailure = uint32(roll(t, 4, "after failure"))
	}
	if once(t, 12, "after batches") {
		for range 1 + roll(t, 2, "batches") {
			n.Optional().AfterBatches = append(n.Options.GetAfterBatches(), w.someBatch(t))
		}
		n.Optional().AfterFailure = uint32(roll(t, 4, "after failure"))
	}
	w.distort(t, n)
	if w.contents == nil {
		w.contents = make(map[string]*fsmpb.NewJob)
	}
	w.contents[n.Id] = n
	return proto.CloneOf(n)
}

// meets is whether all ids were met lately.
func (w *workload) meets(ids []string) bool {
	return !slices.ContainsFunc(ids, func(id string) bool { return !slices.Contains(w.known, id) })
}

// someJob is the id of a job to wait for: mostly one that is there, or that
// comes in the same mutation.
func (w *workload) someJob(t *rapid.T, op *fsmpb.Enqueue) string {
	switch own := op.GetJobs(); {
	case len(own) > 0 && once(t, 3, "of its own"):
		return pick(t, own, "own").Id
	case len(w.known) > 0 && !once(t, 25, "unknown"):
		return pick(t, lastOf(w.known, 8), "known")
	}
	return jobID(roll(t, idCount, "any"))
}

// content follows from the number.
func (w *workload) content(t *rapid.T, number int) *fsmpb.NewJob {
	n := &fsmpb.NewJob{
		Id: jobID(number), Type: jobTypes[number%len(jobTypes)],
		Priority: int32(number%7/5) * 5, LeaseMs: int64(number % 3 * 60),
		Options: &fsmpb.Options{Group: groups[number/4%len(groups)]},
	}
	if number%4 > 0 {
		n.Payload = fmt.Append(nil, number)[:min(number%4-1, 1+number/10)]
	}
	if number%5 == 0 {
		attempts := int32(number % 3)
		n.MaxAttempts = &attempts
	}
	if number%6 == 0 {
		n.RunAtMs = sum(w.now, odd(t, rapid.Int64Range(-20, 100), "runAt"))
	}
	if number%10 == 6 {
		n.Optional().StartBeforeMs = sum(w.now, odd(t, rapid.Int64Range(-5, 120), "start before"))
	}
	if number%13 < 4 {
		n.Optional().RetainMs = odd(t, rapid.SampledFrom([]int64{20, 200, 1, 0}), "retain")
	}
	if number%4 == 1 {
		n.Optional().OnError = w.onError(t)
	}
	if number%9 == 4 {
		n.Optional().TimeoutMs = odd(t, rapid.Int64Range(5, 80), "timeout")
	}
	if number%8 < 3 {
		n.Optional().Tags = tags[:1+number%3]
	}
	if number%10 == 3 {
		n.Optional().Backoff = w.backoff(t)
	}
	n.Optional().Limits = limitSets[(number+number/16%2*3)%len(limitSets)] // jobs of a type and group have two lists
	if number%7 < 3 {
		n.Optional().Unique = &fsmpb.Unique{Key: fmt.Sprint("k", number/8%2), Scope: uint32(1 + number%3)}
		if number%3 == 2 {
			n.Options.GetUnique().PeriodMs = odd(t, rapid.Int64Range(1, 150), "period")
		}
	}
	return n
}

// distort makes a few jobs odd.
func (w *workload) distort(t *rapid.T, n *fsmpb.NewJob) {
	if once(t, 12, "other limits") {
		n.Optional().Limits = pick(t, limitSets, "limits")
	}
	if u := n.Options.GetUnique(); u != nil && u.Scope == 1 && once(t, 2, "the newest wins") {
		u.OnConflict = uint32(1 + roll(t, 2, "conflict"))
		u.WaitMs, u.MaxWaitMs = odd(t, rapid.SampledFrom([]int64{10, 50, 0}), "wait"), pick(t, []int64{0, 30, 100}, "max wait")
	}
	if once(t, 8, "with names") {
		for i := range withoutRepetitions(n.Options.GetAfter()) {
			n.Optional().AfterNames = append(n.Options.GetAfterNames(), fmt.Sprint("n", i))
		}
		n.Optional().Step = pick(t, stepNames, "step")
	}
	if once(t, 6, "in a sequence") {
		n.Optional().Sequence = pick(t, []string{"s", "t"}, "sequence")
	}
	switch roll(t, 200, "oddity") {
	case 199:
		n.Priority = pick(t, []int32{math.MinInt32, math.MaxInt32, -1}, "priority")
	case 198:
		n.LeaseMs = odd(t, rapid.Int64(), "lease")
	case 197:
		attempts := pick(t, []int32{math.MinInt32, math.MaxInt32, -1}, "maxAttempts")
		n.MaxAttempts = &attempts
	case 196:
		n.Payload = nil
	case 195:
		n.Id = ""
	case 194:
		n.Optional().Unique = &fsmpb.Unique{Key: pick(t, []string{"", "k0"}, "key"), Scope: uint32(roll(t, 4, "scope")), PeriodMs: odd(t, rapid.Int64Range(-5, 50), "period")}
	case 193:
		n.Optional().Tags = []string{"t1", "t2", "t1"}
		n.Optional().Headers = []*fsmpb.Header{{Name: "traceparent", Value: pick(t, []string{"1", "2"}, "trace")}, {Name: "x"}}
	case 189, 188, 187, 186, 185, 184, 183, 182, 181, 180, 179, 178, 177, 176:
		n.Quota = &fsmpb.Quota{Account: pick(t, []string{"q1", "q2"}, "account"), MaxJobs: pick(t, []int64{0, 1, 3}, "quota jobs"), MaxBytes: pick(t, []int64{0, 2, 5}, "quota bytes")}
	case 192:
		n.Optional().Batch = pick(t, batchIDs, "batch")
	case 191:
		n.Optional().After = slices.Concat(n.Options.GetAfter(), n.Options.GetAfter())
	case 190:
		n.Optional().TimeoutMs = odd(t, rapid.Int64(), "timeout")
	}
}

// setLimit gives a pattern a rule that few jobs use up, or takes it away.
func (w *workload) setLimit(t *rapid.T) *fsmpb.Mutation {
	op := &fsmpb.SetLimit{Pattern: pick(t, []string{"a", "ab", "b", "a*", "*", "t1\x00a", "t1\x00*", "t1\x00a*", "none*"}, "pattern")}
	if !once(t, 4, "remove") {
		op.Rule = &fsmpb.LimitRule{Running: pick(t, []int64{1, 0, 2, math.MaxInt64}, "running")}
		if rapid.Bool().Draw(t, "with a rate") {
			op.Rule.RateMilli = pick(t, []int64{30_000, 100_000, 333, math.MaxInt64}, "rate")
			op.Rule.Burst = pick(t, []int64{0, 1, 3, math.MaxInt64}, "burst")
		}
	}
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_SetLimit{SetLimit: op}}
}

// lanes has jobs of one group, which may run few jobs, in several lanes, of which some wait for a key at first.
func (w *workload) lanes(t *rapid.T) (muts []*fsmpb.Mutation) {
	typ, group, few, op := pick(t, jobTypes[1:], "type"), pick(t, groups[1:], "group"), int64(1+roll(t, 2, "per group")), &fsmpb.Enqueue{}
	for range 2 + roll(t, 3, "jobs") {
		op.Jobs = append(op.Jobs, &fsmpb.NewJob{
			Id: fmt.Sprintf("l%04d", roll(t, 10_000, "id")), Type: typ, Options: &fsmpb.Options{Group: group, Limits: pick(t, limitSets, "limits")}, LeaseMs: 50,
		})
	}
	return []*fsmpb.Mutation{
		{Op: &fsmpb.Mutation_SetQueue{SetQueue: &fsmpb.SetQueue{Name: typ, MaxRunningPerGroup: &few}}},
		throttleLimit(pick(t, []string{"a", "b", "ab", "t1\x00a"}, "key"), sum(w.now, rapid.Int64Range(1, 20).Draw(t, "hold")), "", nil),
		{Op: &fsmpb.Mutation_Enqueue{Enqueue: op}},
		claim("w1", uint32(1+roll(t, 2, "max")), typ),
	}
}

// throttleLimit holds a key: mostly for a worker that runs a job with it.
func (w *workload) throttleLimit(t *rapid.T) *fsmpb.Mutation {
	op := &fsmpb.ThrottleLimit{
		Key:     pick(t, []string{"a", "b", "ab", "t1\x00a", "t1\x00b", "none"}, "key"),
		UntilMs: sum(w.now, odd(t, rapid.SampledFrom([]int64{20, 5, 100, 0, -10}), "hold")),
	}
	if !once(t, 3, "without a lease") {
		op.Worker, op.Lease = w.report(t)
		if n := w.contents[op.Lease.JobId]; len(n.GetOptions().GetLimits()) > 0 && !once(t, 4, "any key") {
			op.Key = pick(t, n.Options.GetLimits(), "own key")
			if once(t, 3, "of nobody") {
				_, op.Key = tenantAndName(op.Key)
			}
		}
	}
	return owned(t, &fsmpb.Mutation{Op: &fsmpb.Mutation_ThrottleLimit{ThrottleLimit: op}})
}

// onError has few classes, so that the first of several rules matters.
func (w *workload) onError(t *rapid.T) (rules []*fsmpb.OnError) {
	for range 1 + roll(t, 3, "rules") {
		r := &fsmpb.OnError{Class: pick(t, []string{"e1", "e2", "*"}, "class"), Dead: once(t, 2, "dead")}
		if !r.Dead {
			r.DelayMs = max(odd(t, rapid.SampledFrom([]int64{0, 20, 100}), "retry after"), 0)
		}
		rules = append(rules, r)
	}
	return rules
}

func (w *workload) backoff(t *rapid.T) *fsmpb.Backoff {
	return &fsmpb.Backoff{
		Kind:          uint32(roll(t, 5, "backoff")),
		BaseMs:        odd(t, rapid.Int64Range(0, 40), "base"),
		CapMs:         odd(t, rapid.SampledFrom([]int64{0, 50, 20}), "cap"),
		JitterPercent: uint32(pick(t, []int{0, 50, 100, 10}, "jitter")),
	}
}

func (w *workload) claim(t *rapid.T) *fsmpb.Mutation {
	op := &fsmpb.Claim{
		Worker:  w.worker(t),
		Types:   rapid.SliceOfN(rapid.SampledFrom(append(jobTypes, "none")), 0, 3).Draw(t, "types"),
		Max:     pick(t, []uint32{1, 2, 3, 0, 5, math.MaxUint32}, "max"),
		LeaseMs: odd(t, rapid.SampledFrom([]int64{0, 10, 50, 200}), "lease"),

		Instance: w.instance(t), Confirms: rapid.Bool().Draw(t, "confirms"),
	}
	if rapid.Bool().Draw(t, "repeatable") {
		op.RequestId = fmt.Sprintf("r%d", roll(t, 25, "request"))
	}
	if len(w.asked) > 0 && once(t, 8, "again") {
		op = proto.CloneOf(pick(t, w.asked, "claim"))
	}
	w.asked = lastOf(append(w.asked, op), 3)
	return owned(t, &fsmpb.Mutation{Op: &fsmpb.Mutation_Claim{Claim: op}})
}

// report draws who reports on which lease: mostly the holder with its token.
func (w *workload) report(t *rapid.T) (worker string, l *fsmpb.Lease) {
	g := grant{w.worker(t), "none", 1}
	if len(w.leases) > 0 {
		g = pick(t, lastOf(w.leases, pick(t, []int{3, 8, 24}, "recent")), "lease")
	}
	switch roll(t, 14, "who") {
	case 11:
		g.token = 0
	case 10:
		g.worker = w.worker(t)
	case 9:
		g.worker, g.token = w.worker(t), 0
	case 8:
		g.token += uint64(roll(t, 7, "off by") - 3)
	case 7:
		g.job = jobID(roll(t, idCount, "id"))
		g.token = 0
	}
	return g.worker, &fsmpb.Lease{JobId: g.job, Token: g.token}
}

func (w *workload) heartbeat(t *rapid.T) *fsmpb.Mutation {
	op := &fsmpb.Heartbeat{}
	for range roll(t, 5, "leases") {
		worker, l := w.report(t)
		if once(t, 3, "progress") {
			l.Progress = &fsmpb.Progress{
				Percent: uint32(rapid.IntRange(0, 100).Draw(t, "percent")), Message: pick(t, []string{"", "on"}, "message"),
			}
		}
		op.Worker, op.Leases = worker, append(op.Leases, l)
	}
	return owned(t, &fsmpb.Mutation{Op: &fsmpb.Mutation_Heartbeat{Heartbeat: op}})
}

func (w *workload) complete(t *rapid.T) *fsmpb.Mutation {
	worker, l := w.report(t)
	op := &fsmpb.Complete{Worker: worker, Lease: l}
	op.Result = rapid.SampledFrom([][]byte{nil, {}, []byte("1")}).Draw(t, "result")
	if once(t, 3, "log") {
		op.Log = pick(t, []string{"said", "said more than any quota of the tests has room for"}, "text")
	}
	return owned(t, &fsmpb.Mutation{Op: &fsmpb.Mutation_Complete{Complete: op}})
}

// forcedResult is one that only ForceComplete gives.
const forcedResult = "22"

// forceComplete is mostly of a job that is there, in whatever status.
func (w *workload) forceComplete(t *rapid.T) *fsmpb.Mutation {
	op := &fsmpb.ForceComplete{JobId: w.someJob(t, nil)}
	if once(t, 4, "one job") {
		op.Seq = w.someSeq(t)
	}
	op.Result = rapid.SampledFrom([][]byte{nil, {}, []byte("1"), []byte(forcedResult)}).Draw(t, "result")
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_ForceComplete{ForceComplete: op}}
}

func (w *workload) fail(t *rapid.T) *fsmpb.Mutation {
	worker, l := w.report(t)
	op := &fsmpb.Fail{
		Worker: worker, Lease: l, Error: w.reason(t),
		Permanent: once(t, 5, "permanent"), Class: pick(t, []string{"", "e1", "e2", "e3"}, "class"),
	}
	if rapid.Bool().Draw(t, "with delay") {
		delay := odd(t, rapid.SampledFrom([]int64{0, 10, 100}), "delay")
		op.RetryDelayMs = &delay
	}
	return owned(t, &fsmpb.Mutation{Op: &fsmpb.Mutation_Fail{Fail: op}})
}

// reason is now and then longer than a history keeps, by characters of several
// bytes.
func (w *workload) reason(t *rapid.T) string {
	if !once(t, 20, "long") {
		return pick(t, []string{"boom", ""}, "error")
	}
	text := fmt.Sprintf("%*s", 1016+roll(t, 8, "length"), "x")
	return text + "€µ€µ€µ"
}

func (w *workload) release(t *rapid.T) *fsmpb.Mutation {
	worker, l := w.report(t)
	op := &fsmpb.Release{Worker: worker, Lease: l}
	if once(t, 3, "delayed") {
		op.DelayMs = odd(t, rapid.SampledFrom([]int64{10, 100}), "delay")
	}
	return owned(t, &fsmpb.Mutation{Op: &fsmpb.Mutation_Release{Release: op}})
}
