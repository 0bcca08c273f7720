package fsm_test

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"pgregory.net/rapid"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/fsm/outbox"
)

// hooked is a hook of the model with its outbox.
type hooked struct {
	outbox.Hook
	outbox []*outbox.Event
}

func (m *model) hook(name string) *hooked {
	for _, h := range m.hooks {
		if h.Name == name {
			return h
		}
	}
	return nil
}

// setHook replaces a hook by a changed copy.
func (m *model) setHook(old *hooked, how func(*hooked)) {
	h := *old
	h.Hook.Hook = fsmpb.Copy(old.Hook.Hook)
	h.outbox, h.Alerts = slices.Clone(old.outbox), slices.Clone(old.Alerts)
	how(&h)
	m.hooks = slices.Clone(m.hooks)
	m.hooks[slices.Index(m.hooks, old)] = &h
}

func (m *model) putHook(op *fsmpb.PutHook) fsm.Result {
	p := op.Hook
	h := &hooked{Hook: outbox.Hook{Hook: fsmpb.Copy(p)}}
	h.CreatedMs, h.UpdatedMs = m.meta.NowMs, m.meta.NowMs
	old := m.hook(p.Name)
	if old == nil {
		if len(p.Secret) == 0 {
			return fsm.Result{Code: fsm.NotFound}
		}
		m.hooks = append(slices.Clone(m.hooks), h)
		slices.SortFunc(m.hooks, func(a, b *hooked) int { return cmp.Compare(a.Name, b.Name) })
		return fsm.Result{}
	}
	m.setHook(old, func(o *hooked) {
		fresh := h.Hook
		fresh.CreatedMs, fresh.Delivered, fresh.Failed, fresh.Dropped = o.CreatedMs, o.Delivered, o.Failed, o.Dropped
		fresh.DeliveredMs, fresh.FailingSinceMs, fresh.LastError = o.DeliveredMs, o.FailingSinceMs, o.LastError
		fresh.OldSecret, fresh.OldUntilMs = o.OldSecret, o.OldUntilMs
		if len(p.Secret) == 0 {
			fresh.Secret = o.Secret
		} else if string(fresh.Secret) != string(o.Secret) {
			fresh.OldSecret, fresh.OldUntilMs = nil, 0
			if op.OverlapMs > 0 {
				fresh.OldSecret, fresh.OldUntilMs = o.Secret, sum(m.meta.NowMs, op.OverlapMs)
			}
		}
		for _, a := range o.Alerts {
			if wanted(&hooked{Hook: fresh}, outbox.Kind(a.Kind), a.Subject) {
				fresh.Alerts = append(fresh.Alerts, a)
			}
		}
		o.Hook = fresh
	})
	return fsm.Result{}
}

// wanted reports whether a hook wants a kind of events about a subject.
func wanted(h *hooked, kind outbox.Kind, subject string) bool {
	if !slices.Contains(outbox.Kinds(h.Kinds).Names(), kind.String()) {
		return false
	}
	group, _, _ := strings.Cut(kind.String(), ".")
	if group != "job" && group != "queue" || len(h.Types) == 0 {
		return true
	}
	return slices.ContainsFunc(h.Types, func(glob string) bool {
		ok, err := path.Match(glob, subject)
		return ok && err == nil
	})
}

func (m *model) deleteHook(op *fsmpb.DeleteHook) fsm.Result {
	if m.hook(op.Name) == nil {
		return fsm.Result{Code: fsm.NotFound}
	}
	m.hooks = slices.DeleteFunc(slices.Clone(m.hooks), func(h *hooked) bool { return h.Name == op.Name })
	return fsm.Result{}
}

func (m *model) testHook(op *fsmpb.TestHook) fsm.Result {
	h := m.hook(op.Name)
	if h == nil {
		return fsm.Result{Code: fsm.NotFound}
	}
	m.hookNumber++
	m.setHook(h, func(h *hooked) {
		m.post(h, &outbox.Event{Kind: uint32(outbox.Tested), Subject: h.Name, Text: "a test"})
	})
	return fsm.Result{Count: uint64(m.hookNumber)}
}

func (m *model) reportHook(op *fsmpb.ReportHook) (res fsm.Result) {
	old := m.hook(op.Name)
	if old == nil {
		return fsm.Result{Code: fsm.NotFound}
	}
	m.setHook(old, func(h *hooked) {
		take := func(ids []*fsmpb.HookEventId, count *uint64) {
			for _, id := range ids {
				want := outbox.EventID{Term: id.Term, Index: id.Index, N: id.N}
				if at := slices.IndexFunc(h.outbox, func(e *outbox.Event) bool { return outbox.IDOf(e) == want }); at >= 0 {
					h.outbox = slices.Delete(h.outbox, at, at+1)
					*count++
					res.Count++
				}
			}
		}
		take(op.Delivered, &h.Delivered)
		take(op.Failed, &h.Failed)
		if len(op.Delivered) > 0 {
			h.DeliveredMs, h.FailingSinceMs, h.LastError = m.meta.NowMs, 0, ""
		}
		if op.Error != "" {
			if h.FailingSinceMs == 0 {
				h.FailingSinceMs = m.meta.NowMs
			}
			h.LastError = cutTo256(op.Error)
		}
		if h.OldUntilMs > 0 && m.meta.NowMs >= h.OldUntilMs {
			h.OldSecret, h.OldUntilMs = nil, 0
		}
	})
	return res
}

func (m *model) setAlert(op *fsmpb.SetAlert) fsm.Result {
	old := m.hook(op.Hook)
	if old == nil {
		return fsm.Result{Code: fsm.NotFound}
	}
	kind, subject := outbox.Kind(op.Kind), cutTo256(op.Subject)
	at := slices.IndexFunc(old.Alerts, func(a *outbox.Alert) bool { return outbox.Kind(a.Kind) == kind && a.Subject == subject })
	switch {
	case op.Firing && at >= 0, !op.Firing && at < 0:
		return fsm.Result{Code: fsm.Duplicate}
	case op.Firing && !wanted(old, kind, subject):
		return fsm.Result{Code: fsm.NotFound}
	}
	m.hookNumber++
	m.setHook(old, func(h *hooked) {
		a := &outbox.Alert{Kind: uint32(kind), Subject: subject, SinceMs: m.meta.NowMs, Term: m.meta.Term, Index: m.meta.Index, N: m.hookNumber}
		if op.Firing {
			h.Alerts = append(h.Alerts, a)
			slices.SortFunc(h.Alerts, func(a, b *outbox.Alert) int {
				return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Subject, b.Subject))
			})
		} else {
			a = h.Alerts[at]
			h.Alerts = slices.Delete(h.Alerts, at, at+1)
		}
		m.post(h, &outbox.Event{
			Kind: uint32(kind), Subject: subject, Text: cutTo256(op.Text), Resolved: !op.Firing,
			AlertTerm: a.Term, AlertIndex: a.Index, AlertN: a.N, SinceMs: a.SinceMs,
		})
	})
	return fsm.Result{}
}

// post puts an event with the number m.hookNumber into an outbox.
func (m *model) post(h *hooked, e *outbox.Event) {
	e.Hook, e.AtMs, e.Term, e.Index, e.N = h.Name, m.meta.NowMs, m.meta.Term, m.meta.Index, m.hookNumber
	h.outbox = append(h.outbox, e)
	limit := h.BufferBytes
	if limit == 0 {
		limit = 2 << 20
	}
	for bytesOf(h.outbox) > limit {
		h.outbox = h.outbox[1:]
		h.Dropped++
	}
}

func bytesOf(outbox []*outbox.Event) (n int64) {
	for _, e := range outbox {
		n += int64(192 + len(e.Hook) + len(e.Subject) + len(e.JobId) + len(e.Text))
	}
	return n
}

// tell is an event for every hook that wants it.
func (m *model) tell(kind outbox.Kind, e *outbox.Event) {
	if len(m.hooks) == 0 {
		return
	}
	m.hookNumber++
	e.Kind, e.Subject, e.Text, e.JobId = uint32(kind), cutTo256(e.Subject), cutTo256(e.Text), cutTo256(e.JobId)
	for _, h := range slices.Clone(m.hooks) {
		if wanted(h, kind, e.Subject) {
			m.setHook(h, func(h *hooked) { m.post(h, fsmpb.Copy(e)) })
		}
	}
}

// tellJob is the event for a change of a job's status.
func (m *model) tellJob(from fsm.Status, j *fsm.Job) {
	e := &outbox.Event{Subject: j.Type, JobId: j.ID, Attempts: j.Attempts, Text: j.Execution().LastError}
	lost := j.AttemptEnd == fsm.EndFail || j.AttemptEnd == fsm.EndTimeout || j.AttemptEnd == fsm.EndLease
	switch {
	case j.Status == fsm.Completed:
		e.Text = ""
		m.tell(outbox.JobCompleted, e)
	case j.Status == fsm.Dead:
		m.tell(outbox.JobDead, e)
	case j.Status == fsm.Cancelled:
		m.tell(outbox.JobCancelled, e)
	case j.Status == fsm.Expired:
		m.tell(outbox.JobExpired, e)
	case from == fsm.InProgress && lost:
		m.tell(outbox.JobFailed, e)
	}
}

// tellOf is the event for something that happened to another record.
func (m *model) tellOf(kind fsm.EventKind, name string) {
	switch kind {
	case fsm.BrokerRegistered:
		m.tell(outbox.Leader, &outbox.Event{Subject: name, Text: fmt.Sprint("epoch ", m.meta.Epoch)})
	case fsm.WorkerDied:
		n := 0
		for _, j := range m.jobs {
			if j.Status == fsm.InProgress && j.Execution().Worker == name && (m.dying == 0 || m.dying == j.Execution().Instance) {
				n++
			}
		}
		m.tell(outbox.WorkerGone, &outbox.Event{Subject: name, Text: fmt.Sprint(n, " jobs were running")})
	case fsm.BatchEnded:
		b := m.batch(name)
		m.tell(outbox.BatchDone, &outbox.Event{
			Subject: name, Text: fmt.Sprintf("%d completed, %d dead, %d cancelled", b.Completed, b.Dead, b.Cancelled),
		})
	case fsm.CronSkipped:
		m.tell(outbox.ScheduleMissed, &outbox.Event{Subject: name, Text: m.cron(name).LastError})
	}
}

func (m *model) tellAnnounced(kind fsm.AnnounceKind, text string) {
	e := &outbox.Event{Subject: m.meta.BrokerNode, Text: text}
	e.Resolved = kind == fsm.AnnounceBucketBack || kind == fsm.AnnounceWritesAccepted || kind == fsm.AnnounceBucketHealed
	m.tell(map[fsm.AnnounceKind]outbox.Kind{
		fsm.AnnounceBucketAway: outbox.BucketAway, fsm.AnnounceBucketBack: outbox.BucketAway,
		fsm.AnnounceWritesRefused: outbox.WritesRefused, fsm.AnnounceWritesAccepted: outbox.WritesRefused,
		fsm.AnnounceBucketDamaged: outbox.BucketDamaged, fsm.AnnounceBucketHealed: outbox.BucketDamaged,
	}[kind], e)
}

// cutTo256 is a text of at most 256 bytes.
func cutTo256(text string) string {
	short := text
	for len(short) > 256 || len(short) < len(text) && !utf8.RuneStart(text[len(short)]) {
		short = short[:len(short)-1]
	}
	return short
}

func checkHooks(t *rapid.T, v *fsm.View, naive *model) {
	hooks := collected(v.Hooks)
	want := make([]*outbox.Hook, len(naive.hooks))
	for i, h := range naive.hooks {
		c := h.Hook
		c.Pending, c.Bytes = len(h.outbox), bytesOf(h.outbox)
		want[i] = &c
	}
	sameRecords(t, "hooks", hooks, want, func(h *outbox.Hook) any {
		return fmt.Sprint(h.Hook, h.Pending, h.Bytes)
	})
	var events, wantEvents []*outbox.Event
	for _, h := range naive.hooks {
		events = slices.AppendSeq(events, v.HookEvents(h.Name, outbox.EventID{}))
		wantEvents = append(wantEvents, h.outbox...)
	}
	sameRecords(t, "events of hooks", events, wantEvents, func(e *outbox.Event) any { return e.String() })
	if all := collected(v.AllHookEvents); len(all) != len(events) {
		t.Fatalf("the outboxes have %d events, those of the hooks %d", len(all), len(events))
	}
}

var hookNames = []string{"h1", "h2", "h3"}

// hook makes a mutation about one of a few hooks.
func (w *workload) hook(t *rapid.T) *fsmpb.Mutation {
	name := pick(t, hookNames, "hook")
	switch roll(t, 8, "of hooks") {
	case 0:
		if once(t, 3, "delete") {
			return deleteHook(name)
		}
		return testHook(name)
	case 1, 2:
		return w.reportHook(t, name)
	case 3, 4:
		kind := pick(t, []outbox.Kind{outbox.QueueStuck, outbox.QueueFailing, outbox.BucketLag}, "rule")
		return setAlert(name, kind, pick(t, jobTypes, "subject"), !once(t, 3, "resolved"))
	}
	m := putHook(name, outbox.Kinds(rapid.Uint64().Draw(t, "kinds"))&outbox.AllKinds|2)
	op := m.GetPutHook()
	switch roll(t, 4, "secret") {
	case 0:
		op.Hook.Secret = nil
	case 1:
		op.Hook.Secret, op.OverlapMs = []byte("other"), pick(t, []int64{0, 50}, "overlap")
	}
	if once(t, 2, "filtered") {
		op.Hook.Types = pick(t, [][]string{{"a"}, {"?"}, {"*"}, {"b", "c*"}}, "types")
	}
	if once(t, 2, "small") {
		op.Hook.BufferBytes = outbox.BufferMin
	}
	return m
}

// reportHook names events that are about in the outbox.
func (w *workload) reportHook(t *rapid.T, name string) *fsmpb.Mutation {
	op := &fsmpb.ReportHook{Name: name}
	for range roll(t, 4, "reported") {
		id := &fsmpb.HookEventId{Term: 1, Index: uint64(roll(t, 60, "index")), N: uint32(1 + roll(t, 3, "n"))}
		if once(t, 4, "failed") {
			op.Failed = append(op.Failed, id)
		} else {
			op.Delivered = append(op.Delivered, id)
		}
	}
	if once(t, 3, "error") {
		op.Error = pick(t, []string{"500", strings.Repeat("é", 200)}, "text")
	}
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_ReportHook{ReportHook: op}}
}
