package fsm_test

import (
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

// checkJobs compares the jobs and what is counted over them.
func checkJobs(t *rapid.T, m *fsm.Machine, v *fsm.View, naive *model) {
	var counts fsm.Counts
	var bytes int64
	perType := map[string]fsm.TypeStats{}
	for _, want := range naive.jobs {
		counts[want.Status]++
		size := sizeOf(want)
		bytes += size
		c := perType[want.Type]
		c.Counts[want.Status]++
		c.Bytes += size
		perType[want.Type] = c
		got := m.Job(want.ID)
		if got == nil {
			t.Fatalf("job %s is missing; want\n%s", want.ID, showJob(want))
		}
		if !reflect.DeepEqual(bareJob(got), bareJob(want)) {
			t.Fatalf("job %s\n got %+v\nwant %+v", want.ID, showJob(got), showJob(want))
		}
	}
	for _, key := range []string{"a", "b", "ab", "t1\x00a", "t1\x00b"} {
		use, waiting := m.LimitUse(key), 0
		for _, j := range naive.jobs {
			if j.Status == fsm.Unclaimed && naive.parkedUnder(j) == key {
				if waiting++; v.WaitsForLimit(m.Job(j.ID)) != key {
					t.Fatalf("job %s waits for %q, want %q", j.ID, v.WaitsForLimit(m.Job(j.ID)), key)
				}
			}
		}
		running := naive.running(func(j *fsm.Job) bool { return slices.Contains(j.Options().Limits, key) })
		if int64(use.Running) != running || use.Waiting != waiting || !proto.Equal(use.Rule, naive.ruleOf(key)) {
			t.Fatalf("use of %q: %+v, want %d running, %d waiting, rule %v", key, use, running, waiting, naive.ruleOf(key))
		}
	}
	bytes += naive.recordBytes()
	if m.Counts() != counts || v.Counts() != counts || v.Bytes() != bytes {
		t.Fatalf("counts %v, in the view %v with %d bytes, want %v with %d", m.Counts(), v.Counts(), v.Bytes(), counts, bytes)
	}
	gotTypes := map[string]fsm.TypeStats{}
	m.Types(func(name string, s fsm.TypeStats) bool { gotTypes[name] = s; return true })
	if !maps.Equal(gotTypes, perType) {
		t.Fatalf("figures by type %v, want %v", gotTypes, perType)
	}
}

// scan is a way to list jobs.
type scan = func(fn func(*fsm.Job) bool)

func listed(s scan) (ids []string) {
	s(func(j *fsm.Job) bool { ids = append(ids, j.ID); return true })
	return ids
}

func (m *model) list(after uint64, is func(*fsm.Job) bool) (ids []string) {
	for _, j := range m.jobs {
		if j.Seq > after && is(j) {
			ids = append(ids, j.ID)
		}
	}
	return ids
}

// checkListings compares some of the ways to list jobs.
func checkListings(t *rapid.T, v *fsm.View, naive *model) {
	after := rapid.Uint64Range(0, naive.meta.LastSeq+1).Draw(t, "after")
	if once(t, 50, "after all") {
		after = math.MaxUint64
	}
	same := func(what string, s scan, is func(*fsm.Job) bool) {
		if got, want := listed(s), naive.list(after, is); !slices.Equal(got, want) {
			t.Fatalf("%s after %d: %v, want %v", what, after, got, want)
		}
	}
	statuses := rapid.SliceOf(rapid.SampledFrom(allStatuses)).Draw(t, "statuses")
	typ, tag, batch := pick(t, jobTypes, "of type"), pick(t, tags, "tagged"), pick(t, batchIDs, "of batch")
	for _, s := range allStatuses {
		same(s.String(), func(fn func(*fsm.Job) bool) { v.Jobs(s, after, fn) },
			func(j *fsm.Job) bool { return j.Status == s })
	}
	listing := func(what string, of fsm.Index, in func(*fsm.Job) bool) {
		is := func(j *fsm.Job) bool { return slices.Contains(statuses, j.Status) && in(j) }
		same(what, func(fn func(*fsm.Job) bool) { v.List(of, statuses, after, fn) }, is)
		got := listed(func(fn func(*fsm.Job) bool) { v.Newest(of, statuses, after, fn) })
		want := naive.list(0, func(j *fsm.Job) bool { return (after == 0 || j.Seq < after) && is(j) })
		slices.Reverse(want)
		if !slices.Equal(got, want) {
			t.Fatalf("newest %s before %d: %v, want %v", what, after, got, want)
		}
	}
	listing("jobs", fsm.Index{}, func(*fsm.Job) bool { return true })
	listing("of type "+typ, fsm.Index{Type: &typ}, func(j *fsm.Job) bool { return j.Type == typ })
	listing("tagged "+tag, fsm.Index{Tag: tag}, func(j *fsm.Job) bool { return tag == "" || slices.Contains(j.Options().Tags, tag) })
	listing("of batch "+batch, fsm.Index{Batch: batch}, func(j *fsm.Job) bool { return batch == "" || j.Options().Batch == batch })
	for _, j := range naive.jobs {
		got := slices.Collect(v.Dependents(j.ID))
		want := naive.list(0, func(o *fsm.Job) bool { return slices.Contains(o.Options().After, j.ID) })
		if !slices.Equal(got, want) {
			t.Fatalf("after %s: %v, want %v", j.ID, got, want)
		}
	}
	for _, s := range statuses {
		want := len(naive.list(0, func(j *fsm.Job) bool { return j.Type == typ && j.Status == s }))
		if got := v.CountOfType(typ, s); got != want {
			t.Fatalf("%d %v jobs of type %q, want %d", got, s, typ, want)
		}
	}
	worker := pick(t, workers, "held by")
	same("held by "+worker, v.HeldBy(worker, after), func(j *fsm.Job) bool { return j.Status == fsm.InProgress && j.Execution().Worker == worker })
	held := naive.running(func(j *fsm.Job) bool { return j.Execution().Worker == worker })
	if got := v.Held(worker); int64(got) != held {
		t.Fatalf("worker %q holds %d jobs, want %d", worker, got, held)
	}
}

func checkWorkers(t *rapid.T, m *fsm.Machine, v *fsm.View, naive *model) {
	workers := collected(v.Workers(""))
	sameRecords(t, "workers", workers, naive.workers, func(w *fsm.Worker) any { return w.String() })
	if v.WorkerCount() != len(workers) || m.WorkerCount() != len(workers) {
		t.Fatalf("%d workers, and %d in the machine, want %d", v.WorkerCount(), m.WorkerCount(), len(workers))
	}
	sameRecords(t, "claims", collected(v.Claims), naive.claims, func(r *fsm.ClaimRecord) any { return r.String() })
}

// collected returns the records that scan visits.
func collected[T any](scan func(func(*T) bool)) (list []*T) {
	scan(func(item *T) bool { list = append(list, item); return true })
	return list
}

// checkRecords compares the records beside jobs, workers and claims.
func checkRecords(t *rapid.T, v *fsm.View, naive *model) {
	sameRecords(t, "settings", collected(v.Queues), naive.queues, func(q *fsm.QueueSettings) any { return q.String() })
	sameRecords(t, "limits", collected(v.Limits), naive.limits, func(l *fsm.Limit) any { return l.String() })
	sameRecords(t, "parked lanes", collected(v.Lanes), naive.parked, func(p *fsm.ParkedLane) any { return p.String() })
	sameRecords(t, "turns", collected(v.Turns), naive.turns, func(o *fsm.Turn) any { return o.String() })
	crons := collected(v.Crons(""))
	sameRecords(t, "schedules", crons, naive.crons, func(c *fsm.Cron) any {
		plain := fsmpb.Copy(c)
		plain.Job = nil
		return plain.String()
	})
	batches := collected(v.Batches(""))
	sameRecords(t, "batches", batches, naive.batches, func(b *fsm.JobBatch) any {
		plain := fsmpb.Copy(b)
		plain.Callback = nil
		return plain.String()
	})
	sameRecords(t, "holds", collected(v.Holds), naive.holds, func(h *fsm.Hold) any { return h.String() })
	sameRecords(t, "requests", collected(v.Requests), naive.requests, func(r *fsm.RequestRecord) any { return r.String() })
	tokens := collected(v.Tokens(""))
	sameRecords(t, "tokens", tokens, naive.tokens, func(k *fsm.Token) any { return k.String() })
	artefact := func(a *fsm.Artefact) any { return a.String() }
	sameRecords(t, "artefacts", collected(v.AllArtefacts), naive.artefacts, artefact)
	for _, j := range naive.jobs {
		own := slices.SortedFunc(slices.Values(naive.artefactsOf(j.ID)), func(a, b *fsm.Artefact) int { return strings.Compare(a.Name, b.Name) })
		sameRecords(t, "artefacts of "+j.ID, v.ArtefactsOf(j.ID), own, artefact)
	}
	checkFigures(t, v, naive)
	checkHooks(t, v, naive)
	for i, c := range crons {
		if !naive.sameJob(c.Job, naive.crons[i].Job) {
			t.Fatalf("schedule %s: job %v, want %v", c.Name, c.Job, naive.crons[i].Job)
		}
	}
	for i, b := range batches {
		if !naive.sameJob(b.Callback, naive.batches[i].Callback) {
			t.Fatalf("batch %s: callback %v, want %v", b.Id, b.Callback, naive.batches[i].Callback)
		}
	}
}

func sameRecords[T any](t *rapid.T, what string, got, want []*T, plain func(*T) any) {
	if len(got) != len(want) {
		t.Fatalf("%d %s, want %d:\n%v\n%v", len(got), what, len(want), plains(got, plain), plains(want, plain))
	}
	for i := range got {
		if a, b := plain(got[i]), plain(want[i]); !reflect.DeepEqual(a, b) {
			t.Fatalf("%s\n got %+v\nwant %+v", what, a, b)
		}
	}
}

func plains[T any](list []*T, plain func(*T) any) (out []any) {
	for _, item := range list {
		out = append(out, plain(item))
	}
	return out
}
