package cluster

import (
	"context"
	"strings"
	"testing"
	"time"

	"osqueue/fsm"
	"osqueue/fsm/artefacts"
	"osqueue/fsm/fsmpb"
	"osqueue/internal/storagetest"
	"osqueue/internal/storagetest/script"
	"osqueue/storage"
)

// simHas returns what a job keeps over its attempts, by kind and name. Of a signal the value stands in the name, and the text says
// how often it came.
func simHas(v *fsm.View, job *fsm.Job) map[string]string {
	has := make(map[string]string)
	for _, s := range job.Details().Steps {
		has["step "+s.Name] = string(s.Value)
	}
	for _, s := range job.Details().Signals {
		has["signal "+string(s.Value)] += "once"
	}
	for _, a := range v.ArtefactsOf(job.ID) {
		has["artefact "+a.Name] = a.Id
	}
	return has
}

// remembers checks that an attempt that starts has what was acknowledged before.
func (l *simLedger) remembers(v *fsm.View, id string, j *simJob, job *fsm.Job) {
	has := simHas(v, job)
	for what, want := range j.memory {
		kind, _, _ := strings.Cut(what, " ")
		l.world.counts.One("check: attempt has the " + kind)
		if has[what] != want {
			l.world.failLocked("job %s starts at %s, and its %s is %q in place of %q", id, v.LSN(), what, has[what], want)
		}
	}
}

// remembered records that a client has received the answer that a job keeps something.
func (w *simWorld) remembered(id, what, value string, a simAnswer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.states[a.lsn]
	if s == nil {
		w.failLocked("%s of job %s was acknowledged at %s, which no node has applied", what, id, a.lsn)
		return
	}
	j := s.ledger.jobs[id]
	switch {
	case j == nil: // it was lost with the disks
		return
	case j.memory == nil:
		j.memory = make(map[string]string)
	case j.memory[what] != "" && j.memory[what] != value:
		w.failLocked("%s of job %s was acknowledged as %q and as %q", what, id, j.memory[what], value)
	}
	j.memory[what] = value
}

// keep stores a step of a job that the worker has, or gives it an artefact.
func (c *simClient) keep(j *fsm.Job) {
	token := j.Execution().Token
	if c.r.IntN(2) == 0 {
		value := c.id("v")
		a, ok := c.do(func() *fsmpb.Mutation { return script.StoreStep(c.name, j.ID, token, "s", value) })
		if ok && a.Code.Done() {
			c.world.remembered(j.ID, "step s", string(a.Jobs[0].Details().Step("s").Value), a)
		}
		return
	}
	file := c.id("f")
	reserve := script.ReserveArtefact(file, 1, time.Now().Add(24*time.Hour).UnixMilli(), nil)
	if _, ok := c.do(c.keyed(reserve)); !ok {
		return
	}
	if w := c.world.store.PutIfAbsent(context.Background(), artefacts.Prefix+file, []byte("1")); w.Outcome != storage.Committed {
		return
	}
	a, ok := c.do(func() *fsmpb.Mutation { return script.AttachArtefact(c.name, j.ID, token, file, file) })
	if ok && a.Code.Done() {
		c.world.remembered(j.ID, "artefact "+file, file, a)
	}
}

// suspend ends an attempt until a signal, or a time.
func (c *simClient) suspend(j *fsm.Job) {
	until := time.Now().Add(c.ms(5000)).UnixMilli()
	a, ok := c.do(func() *fsmpb.Mutation { return script.Suspend(c.name, j.ID, j.Execution().Token, until, "go") })
	if ok && a.Code.Done() {
		c.world.counts.One("suspension answered")
	}
}

// signalOne sends a signal to a job of the client, mostly one of the last.
func (c *simClient) signalOne() {
	if len(c.sent) == 0 {
		return
	}
	id, value := c.sent[max(0, len(c.sent)-1-c.r.IntN(4))], c.id("v")
	a, ok := c.do(func() *fsmpb.Mutation { return script.SendSignal(id, "go", value, value) })
	if ok {
		c.world.counts.One("signal answered: " + a.Code.String())
	}
	if ok && a.Code.Done() {
		c.world.remembered(id, "signal "+value, "once", a)
	}
}

// TestSimFindsLostMemory has a job that starts with or without what was acknowledged.
func TestSimFindsLostMemory(t *testing.T) {
	with := func(value string) *fsm.Details {
		return &fsm.Details{Steps: []*fsmpb.Step{{Name: "s", Value: []byte(value)}}}
	}
	for name, c := range map[string]struct {
		has   *fsm.Details
		what  string
		found string // expected violation; "": none
	}{
		"a step":               {with("1"), "step s", ""},
		"another value":        {with("2"), "step s", `its step s is "2"`},
		"no step":              {nil, "step s", `its step s is ""`},
		"no signal":            {with("1"), "signal v", `its signal v is ""`},
		"no artefact":          {with("1"), "artefact f", `its artefact f is ""`},
		"acknowledged as both": {with("1"), "", `acknowledged as "1" and as "2"`},
	} {
		t.Run(name, func(t *testing.T) {
			w := newSimWorld(1, storagetest.NewCounts())
			w.ask("a")
			l, at := newSimLedger(w, "a"), fsm.LSN{Term: 1, Index: 1}
			w.states[at] = &simState{ledger: l}
			l.note(simStateAt(t, 1), []fsm.Event{{Job: &fsm.Job{ID: "a", Status: fsm.Unclaimed}}})
			if c.what == "" {
				w.remembered("a", "step s", "1", simAnswer{lsn: at})
				w.remembered("a", "step s", "2", simAnswer{lsn: at})
			} else {
				w.remembered("a", c.what, "1", simAnswer{lsn: at})
			}
			started := &fsm.Job{ID: "a", Status: fsm.InProgress, Attempts: 1, Exec: &fsm.Execution{Token: 1}, Det: c.has}
			l.note(simStateAt(t, 2), []fsm.Event{{Job: started, From: fsm.Unclaimed}})
			if c.found == "" && len(w.failures) > 0 {
				t.Errorf("found is %q", w.failures)
			} else if c.found != "" {
				mustFind(t, w.failures, c.found)
			}
		})
	}
}
