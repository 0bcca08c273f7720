package model_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/internal/crontab"
	"osqueue/tests/history"
	"osqueue/tests/model"
)

// sim is a run of clients against one machine, in simulated time: a history that is
// true, because each operation takes effect at one moment between its call and its
// return.
type sim struct {
	rng     *rand.Rand
	m       *fsm.Machine
	log     []model.Entry
	at      history.Time // when the last entry was applied
	epoch   uint64
	term    uint64
	clients []*simClient
	known   []string // jobs of acknowledged enqueues
	lsns    []history.LSN
	h       history.History
	lastID  int
	faults  bool     // answers are lost, calls are refused, leaders change, clocks are wrong
	ahead   int64    // by how much the machine's clock is ahead, ms
	files   []string // the jobs that an artefact was given to, by its number
}

type simClient struct {
	name string
	free history.Time
	held []history.Held
	act  func(*simClient)
}

const simLease = 300 * history.Millisecond

var simStart = time.UnixMilli(1_700_000_000_000).UTC()

// simulate makes a history of about n operations.
func simulate(seed uint64, n int, faults bool) *history.History {
	s := &sim{rng: rand.New(rand.NewPCG(seed, 1)), m: fsm.New(), term: 1, faults: faults}
	s.h.Run = history.Run{Seed: seed, Nodes: 3, Start: simStart, Lease: simLease}
	s.takeover(reservations()...)
	for i := range 2 {
		s.clients = append(s.clients, &simClient{name: fmt.Sprint("p", i), act: s.produce}, &simClient{name: fmt.Sprint("w", i), act: s.work})
	}
	s.clients = append(s.clients, &simClient{name: "w2", act: s.work}, &simClient{name: "c0", act: s.cancel}, &simClient{name: "r0", act: s.read},
		&simClient{name: "e0", act: s.edit}, &simClient{name: "l0", act: s.limit})
	for range n {
		c := s.clients[s.rng.IntN(len(s.clients))]
		c.act(c)
		if s.faults && s.rng.IntN(60) == 0 {
			s.takeover()
		}
	}
	s.drain()
	return s.finish()
}

// apply appends an entry some time later.
func (s *sim) apply(muts ...*fsmpb.Mutation) []fsm.Result {
	s.at += history.Time(1+s.rng.IntN(20)) * history.Millisecond
	data, err := fsm.EncodeEntry(&fsmpb.Batch{NowMs: s.nowMs(), Mutations: append(muts, s.due()...)})
	if err != nil {
		panic(err)
	}
	e := model.Entry{Index: uint64(len(s.log) + 1), Term: s.term, Data: data}
	s.log = append(s.log, e)
	b, err := fsm.DecodeEntry(data)
	if err != nil {
		panic(err)
	}
	res := s.m.Apply(e.Index, e.Term, b)
	if s.rng.IntN(8) == 0 {
		s.document()
	}
	return res
}

// simSchedules have the specs of the schedules, by name.
var simSchedules = map[string]string{"each": "0 * * * * *", "last": "* * * * * *"}

// due are the fires that the leader proposes.
func (s *sim) due() (fires []*fsmpb.Mutation) {
	now := max(s.m.Now(), s.nowMs())
	s.m.DueCrons(now, func(c *fsm.Cron) bool {
		times, err := crontab.Parse(c.Spec, "")
		if err != nil {
			panic(err)
		}
		for due := c.NextAtMs; due <= now; {
			op := &fsmpb.FireCron{Name: c.Name, DueMs: due, AtMs: due, JobId: fmt.Sprint(c.Name, due)}
			for due = times.Next(due); fsm.MissedPolicy(c.Missed) != fsm.MissedAll && due <= now; due = times.Next(due) {
				op.AtMs = due
				op.Missed++
			}
			op.NextMs = due
			fires = append(fires, &fsmpb.Mutation{Op: &fsmpb.Mutation_FireCron{FireCron: op}})
		}
		return true
	})
	return fires
}

// schedule puts a schedule, or deletes it.
func (s *sim) schedule(c *simClient, name, spec string) {
	op, m := history.Op{Kind: history.Schedule, Name: name, Value: spec}, new(fsmpb.Mutation)
	if spec == "" {
		m.Op = &fsmpb.Mutation_DeleteCron{DeleteCron: &fsmpb.DeleteCron{Name: name}}
	} else {
		times, err := crontab.Parse(spec, "")
		if err != nil {
			panic(err)
		}
		put := &fsmpb.PutCron{Name: name, Spec: spec, NextMs: times.Next(max(s.m.Now(), s.nowMs())), Missed: uint32(fsm.MissedOne), Job: &fsmpb.NewJob{Type: "a"}}
		if name == "each" {
			put.Missed = uint32(fsm.MissedAll)
		}
		m.Op = &fsmpb.Mutation_PutCron{PutCron: put}
	}
	s.do(c, op, m, func(*history.Op, fsm.Result) {})
}

// age changes the ageing of a type.
func (s *sim) age(c *simClient) {
	op := history.Op{Kind: history.SetType, Type: "b", Delay: history.Time(s.lastID%4) * 20 * history.Millisecond}
	s.do(c, op, &fsmpb.Mutation{Op: &fsmpb.Mutation_SetQueue{SetQueue: &fsmpb.SetQueue{
		Name: op.Type, AgingMs: new(int64(op.Delay / history.Millisecond)),
	}}}, func(*history.Op, fsm.Result) {})
}

// nowMs is the leader's clock.
func (s *sim) nowMs() int64 {
	return simStart.UnixMilli() + int64(s.at/history.Millisecond) + s.ahead
}

// pass lets time pass, in which the leader proposes empty entries.
func (s *sim) pass(until history.Time) {
	for s.at < until {
		s.at = min(until, s.at+simLease)
		s.apply()
	}
}

// takeover has a new leader, whose clock may be an hour ahead. From then on the clock stays
// ahead.
func (s *sim) takeover(more ...*fsmpb.Mutation) {
	s.epoch++
	s.term++
	if s.faults && s.rng.IntN(3) == 0 {
		s.ahead = time.Hour.Milliseconds()
	}
	s.apply(append(more, &fsmpb.Mutation{Op: &fsmpb.Mutation_RegisterBroker{RegisterBroker: &fsmpb.RegisterBroker{
		Node: fmt.Sprint("n", s.epoch%3), Epoch: s.epoch, Cluster: "c", Lineage: "l",
	}}})...)
}

// reservations make the artefacts file-0, file-1 and so on.
func reservations() (all []*fsmpb.Mutation) {
	for i := range 200 {
		all = append(all, &fsmpb.Mutation{Op: &fsmpb.Mutation_ReserveArtefact{ReserveArtefact: &fsmpb.ReserveArtefact{
			Id: fmt.Sprint("file-", i), Sum: make([]byte, sha256.Size), UntilMs: simStart.Add(24 * time.Hour).UnixMilli(),
		}}})
	}
	return all
}

// document is a version of the document, accepted at once.
func (s *sim) document() {
	h := s.m.View().Hash()
	s.h.Documents = append(s.h.Documents, history.Document{
		Version: len(s.h.Documents) + 1, At: s.at, LSN: s.lsn(), Epoch: s.epoch, Node: fmt.Sprint("n", s.epoch%3),
		Cluster: "c", Lineage: "l", Hash: hex.EncodeToString(h[:]),
	})
}

func (s *sim) lsn() history.LSN { return history.LSN{LSN: s.m.LSN()} }

// do makes one operation of a client: it is applied between its call and its
// return, unless it fails before. done reads the answer.
func (s *sim) do(c *simClient, op history.Op, mut *fsmpb.Mutation, done func(*history.Op, fsm.Result)) {
	s.lastID++
	op.ID, op.Client, op.Request = s.lastID, c.name, fmt.Sprint("k", s.lastID)
	luck := 99
	if s.faults {
		luck = s.rng.IntN(100)
	}
	if luck < 4 || luck >= 4 && luck < 8 {
		op.Call = max(c.free, s.at)
		op.Return = op.Call + history.Time(s.rng.IntN(100))*history.Millisecond
		op.Outcome, op.Tag = history.Refused, "no_leader"
		if luck < 4 {
			op.Outcome, op.Tag = history.Unknown, ""
		}
		c.free = op.Return + 1
		s.h.Ops = append(s.h.Ops, op)
		return
	}
	s.pass(c.free) // its call comes after its last return
	mut.Request = &fsmpb.Request{Key: op.Request, Fingerprint: []byte(op.Request)}
	from := s.at
	res := s.apply(mut)[0]
	op.Call = max(c.free, from-history.Time(s.rng.IntN(40))*history.Millisecond)
	op.Return = s.at + history.Time(s.rng.IntN(40))*history.Millisecond
	c.free = op.Return + 1
	op.Outcome, op.LSN = history.OK, s.lsn()
	code := res.Code
	if len(res.Codes) == 1 {
		code = res.Codes[0]
	}
	if !code.Done() {
		op.Outcome, op.Tag, op.LSN = history.Refused, code.String(), history.LSN{}
	}
	if luck < 18 { // the answer is lost
		op.Outcome, op.Tag, op.LSN = history.Unknown, "", history.LSN{}
		s.h.Ops = append(s.h.Ops, op)
		return
	}
	if op.Outcome == history.OK {
		s.lsns = append(s.lsns, op.LSN)
		if n := len(s.h.Documents); n > 0 && s.h.Documents[n-1].LSN == op.LSN {
			op.Committed = "object"
		}
	}
	done(&op, res)
	s.h.Ops = append(s.h.Ops, op)
}

func (s *sim) produce(c *simClient) {
	job := fmt.Sprint("j", s.lastID+1)
	op := history.Op{
		Kind: history.Enqueue, Job: job, Type: []string{"a", "b"}[s.rng.IntN(2)], Priority: int32(s.rng.IntN(2)),
		MaxAttempts: 1 + s.rng.IntN(3), Payload: fmt.Sprintf(`"%s"`, job),
	}
	n := &fsmpb.NewJob{Id: job, Type: op.Type, Priority: op.Priority, Payload: []byte(op.Payload), MaxAttempts: new(int32(op.MaxAttempts))}
	if s.rng.IntN(5) == 0 {
		op.Delay = history.Time(s.rng.IntN(200)+1) * history.Millisecond
		n.RunAtMs = s.nowMs() + int64(op.Delay/history.Millisecond)
	}
	switch s.rng.IntN(4) {
	case 0:
		op.Sequence = []string{"x", "y"}[s.rng.IntN(2)]
	case 1:
		n.Optional().Limits = [][]string{{"c:1"}, {"c:2"}, {"all", "c:1"}}[s.rng.IntN(3)]
		op.Limits = strings.Join(n.Options.GetLimits(), ",")
	}
	n.Optional().Sequence = op.Sequence
	if op.Delay == 0 && s.lastID%4 == 0 {
		op.Before = history.Time(10+s.lastID%70) * history.Millisecond
		n.Optional().StartBeforeMs = s.nowMs() + int64(op.Before/history.Millisecond)
	}
	s.do(c, op, &fsmpb.Mutation{Op: &fsmpb.Mutation_Enqueue{Enqueue: &fsmpb.Enqueue{Jobs: []*fsmpb.NewJob{n}}}},
		func(*history.Op, fsm.Result) { s.known = append(s.known, job) })
}

func (s *sim) work(c *simClient) {
	if len(c.held) == 0 {
		s.claim(c)
		return
	}
	held := c.held[0]
	op := history.Op{Job: held.Job, Token: held.Token, Worker: c.name}
	lease := &fsmpb.Lease{JobId: held.Job, Token: held.Token}
	drop := true
	var mut fsmpb.Mutation
	switch n := s.rng.IntN(20); {
	case n < 6:
		op.Kind, drop = history.Heartbeat, false
		mut.Op = &fsmpb.Mutation_Heartbeat{Heartbeat: &fsmpb.Heartbeat{Worker: c.name, Leases: []*fsmpb.Lease{lease}}}
	case n < 13:
		op.Kind, op.Result = history.Complete, fmt.Sprintf(`"%d"`, held.Token)
		mut.Op = &fsmpb.Mutation_Complete{Complete: &fsmpb.Complete{Worker: c.name, Lease: lease, Result: []byte(op.Result)}}
	case n < 16:
		op.Kind, op.Permanent = history.Fail, s.rng.IntN(4) == 0
		mut.Op = &fsmpb.Mutation_Fail{Fail: &fsmpb.Fail{Worker: c.name, Lease: lease, Permanent: op.Permanent}}
	case n < 18:
		op.Kind = history.Release
		if n == 17 {
			op.Delay = history.Time(1+s.rng.IntN(200)) * history.Millisecond
		}
		mut.Op = &fsmpb.Mutation_Release{Release: &fsmpb.Release{Worker: c.name, Lease: lease, DelayMs: int64(op.Delay / history.Millisecond)}}
	case n == 18 && len(s.m.Job(held.Job).Options().Limits) > 0:
		op.Kind, op.Limit, op.Delay, drop = history.Throttle, s.m.Job(held.Job).Options().Limits[0], 50*history.Millisecond, false
		mut.Op = &fsmpb.Mutation_ThrottleLimit{ThrottleLimit: &fsmpb.ThrottleLimit{
			Key: op.Limit, UntilMs: s.nowMs() + int64(op.Delay/history.Millisecond), Worker: c.name, Lease: lease,
		}}
	case n == 18 && s.lastID%2 == 0 && len(s.files) < len(reservations()):
		op.Kind, op.Name, drop = history.Attach, fmt.Sprint("file-", len(s.files)), false
		op.Value = op.Name
		s.files = append(s.files, held.Job)
		mut.Op = &fsmpb.Mutation_AttachArtefact{AttachArtefact: &fsmpb.AttachArtefact{
			Worker: c.name, Lease: lease, Artefact: &fsmpb.NamedArtefact{Name: op.Name, Id: op.Name},
		}}
	case n == 18:
		op.Kind, op.Name, op.Value, drop = history.Step, "s", fmt.Sprintf(`"step %d"`, s.lastID+1), false
		mut.Op = &fsmpb.Mutation_StoreStep{StoreStep: &fsmpb.StoreStep{Worker: c.name, Lease: lease, Name: op.Name, Value: []byte(op.Value)}}
	default: // it falls asleep, and continues later
		c.free = max(c.free, s.at) + simLease + simLease/2
		return
	}
	s.do(c, op, &mut, func(op *history.Op, res fsm.Result) {
		if op.Outcome == history.OK && op.Kind == history.Heartbeat {
			op.Stopping = res.Jobs[0].Details().CancelAt != 0
		}
		if op.Outcome == history.OK && op.Kind == history.Step {
			op.Kept = string(res.Jobs[0].Details().Step(op.Name).Value)
		}
		drop = drop || op.Outcome == history.Refused
	})
	if drop {
		c.held = c.held[1:]
	}
}

func (s *sim) claim(c *simClient) {
	op := history.Op{Kind: history.Claim, Worker: c.name, Lease: simLease, Max: 1 + s.rng.IntN(2)}
	if s.rng.IntN(2) == 0 {
		op.Types = []string{"a"}
	}
	s.do(c, op, &fsmpb.Mutation{Op: &fsmpb.Mutation_Claim{Claim: &fsmpb.Claim{
		Worker: c.name, Types: op.Types, Max: uint32(op.Max), LeaseMs: int64(simLease / history.Millisecond),
	}}}, func(op *history.Op, res fsm.Result) {
		for _, j := range res.Jobs {
			held := history.Held{
				Job: j.ID, Token: j.Execution().Token, Attempt: int(j.Attempts), Type: j.Type, Priority: j.Priority, Lease: simLease, Payload: string(j.Payload()),
				Scheduled: scheduledOf(j),
			}
			if step := j.Details().Step("s"); step != nil {
				held.Steps = map[string]string{"s": string(step.Value)}
			}
			for _, sent := range j.Details().Signals {
				held.Signals = append(held.Signals, string(sent.Value))
			}
			op.Jobs = append(op.Jobs, held)
		}
		c.held = slices.Clone(op.Jobs)
	})
}

func (s *sim) cancel(c *simClient) {
	if len(s.known) == 0 || s.rng.IntN(3) > 0 {
		return
	}
	job := s.known[s.rng.IntN(len(s.known))]
	s.do(c, history.Op{Kind: history.Cancel, Job: job}, &fsmpb.Mutation{Op: &fsmpb.Mutation_Change{Change: &fsmpb.Change{
		Kind: uint32(fsm.CancelJobs), Ids: []string{job},
	}}}, func(op *history.Op, res fsm.Result) {
		if op.Outcome == history.OK {
			op.Status = res.Jobs[0].Status.String()
			op.Stopping = res.Jobs[0].Status == fsm.InProgress
		}
	})
}

// edit changes the payload of one of the last jobs, and perhaps when it runs.
func (s *sim) edit(c *simClient) {
	if len(s.known) == 0 || s.rng.IntN(2) > 0 {
		return
	}
	job := s.known[max(0, len(s.known)-1-s.rng.IntN(4))]
	if s.rng.IntN(3) == 0 {
		op := history.Op{Kind: history.Signal, Job: job, Name: "go", Value: fmt.Sprintf(`"signal %d"`, s.lastID+1)}
		s.do(c, op, &fsmpb.Mutation{Op: &fsmpb.Mutation_SendSignal{SendSignal: &fsmpb.SendSignal{
			JobId: job, Name: op.Name, Value: []byte(op.Value), Id: op.Value,
		}}}, func(*history.Op, fsm.Result) {})
		return
	}
	op := history.Op{Kind: history.Edit, Job: job, Payload: fmt.Sprintf(`"edit %d"`, s.lastID+1)}
	m := &fsmpb.EditJob{Id: job, Payload: []byte(op.Payload)}
	if s.rng.IntN(2) == 0 {
		op.IfRevision = new(uint64(s.rng.IntN(2)))
		m.Revision = op.IfRevision
	}
	switch s.rng.IntN(6) {
	case 0:
		op.Delay = 100 * history.Millisecond
		m.RunAtMs = new(s.nowMs() + 100)
	case 1:
		op.Limits = "c:2"
		m.Limits = &fsmpb.Limits{Limits: []string{op.Limits}}
	}
	s.do(c, op, &fsmpb.Mutation{Op: &fsmpb.Mutation_EditJob{EditJob: m}}, func(op *history.Op, res fsm.Result) {
		if op.Outcome == history.OK {
			op.Revision = res.Count
		}
	})
}

// scheduledOf is the schedule of a job. The id has the time.
func scheduledOf(j *fsm.Job) history.Scheduled {
	name := j.Options().Cron
	at, _ := strconv.ParseInt(strings.TrimPrefix(j.ID, name), 10, 64)
	if name == "" {
		at = 0
	}
	return history.Scheduled{Schedule: name, At: at}
}

// limit changes a rule, a schedule or the ageing of a type.
func (s *sim) limit(c *simClient) {
	switch s.lastID % 10 {
	case 0, 1:
		name := []string{"each", "last"}[s.lastID%2]
		s.schedule(c, name, simSchedules[name])
		return
	case 2:
		s.age(c)
		return
	}
	if s.rng.IntN(4) > 0 {
		return
	}
	op := history.Op{Kind: history.SetLimit, Limit: []string{"c:*", "c:1", "all"}[s.rng.IntN(3)]}
	m := &fsmpb.SetLimit{Pattern: op.Limit}
	if s.rng.IntN(4) > 0 {
		op.Rule = &history.Rule{Running: int64(1 + s.rng.IntN(2)), RateMilli: int64(5000 * s.rng.IntN(3)), Burst: int64(s.rng.IntN(3))}
		m.Rule = &fsmpb.LimitRule{Running: op.Rule.Running, RateMilli: op.Rule.RateMilli, Burst: op.Rule.Burst}
	}
	s.do(c, op, &fsmpb.Mutation{Op: &fsmpb.Mutation_SetLimit{SetLimit: m}}, func(*history.Op, fsm.Result) {})
}

func (s *sim) read(c *simClient) {
	if len(s.known) == 0 {
		return
	}
	s.lastID++
	op := history.Op{ID: s.lastID, Client: c.name, Kind: history.GetJob, Job: s.known[s.rng.IntN(len(s.known))], Outcome: history.OK}
	s.pass(c.free)
	op.Call = max(c.free, s.at-history.Time(s.rng.IntN(30))*history.Millisecond)
	op.Return = s.at + history.Time(s.rng.IntN(30))*history.Millisecond
	c.free = op.Return + 1
	switch s.rng.IntN(3) {
	case 0:
		op.MinLSN, op.Node = s.lsns[s.rng.IntN(len(s.lsns))], "n2"
	case 1:
		op.Kind, op.Job = history.Stats, ""
		op.MinLSN, op.Node, op.LSN = s.lsns[s.rng.IntN(len(s.lsns))], "n1", s.lsn()
	}
	if op.Kind == history.GetJob && op.ID%2 == 0 && len(s.files) > 0 {
		n := op.ID / 2 % len(s.files)
		op.Kind, op.Job, op.Name, op.MinLSN, op.Node = history.Open, s.files[n], fmt.Sprint("file-", n), history.LSN{}, ""
		if op.Value = op.Name; s.m.View().ArtefactOf(op.Job, op.Name) == nil {
			op.Outcome, op.Tag, op.Value = history.Refused, "not_found", ""
		}
	}
	if op.Kind == history.GetJob {
		j := s.m.Job(op.Job)
		op.Status, op.Token, op.Attempts, op.Result = j.Status.String(), j.Execution().Token, int(j.Attempts), string(j.Execution().Result)
	}
	s.h.Ops = append(s.h.Ops, op)
}

// drain lets a worker who never errs end everything.
func (s *sim) drain() {
	s.faults = false
	c := &simClient{name: "last"}
	s.schedule(c, "each", "")
	s.schedule(c, "last", "")
	for range 10_000 {
		s.pass(max(c.free, s.at+simLease/4))
		n := s.m.Counts()
		if n[fsm.Scheduled]+n[fsm.Unclaimed]+n[fsm.InProgress]+n[fsm.Blocked] == 0 {
			return
		}
		if len(c.held) == 0 {
			s.claim(c)
			continue
		}
		held := c.held[0]
		c.held = c.held[1:]
		result := fmt.Sprintf(`"%d"`, held.Token)
		s.do(c, history.Op{Kind: history.Complete, Job: held.Job, Token: held.Token, Worker: c.name, Result: result},
			&fsmpb.Mutation{Op: &fsmpb.Mutation_Complete{Complete: &fsmpb.Complete{
				Worker: c.name, Lease: &fsmpb.Lease{JobId: held.Job, Token: held.Token}, Result: []byte(result),
			}}}, func(*history.Op, fsm.Result) {})
	}
	panic("the simulation does not end")
}

// finish reads what is there at the end, and the logs of two nodes.
func (s *sim) finish() *history.History {
	s.m.View().List(fsm.Index{}, []fsm.Status{fsm.Completed, fsm.Dead, fsm.Cancelled, fsm.Expired}, 0, func(j *fsm.Job) bool {
		s.h.Finals = append(s.h.Finals, history.Final{
			Job: j.ID, Status: j.Status.String(), Type: j.Type, Payload: string(j.Payload()), Result: string(j.Execution().Result),
			Token: j.Execution().Token, Attempts: int(j.Attempts), Scheduled: scheduledOf(j),
		})
		return true
	})
	var at []fsm.LSN
	for _, d := range s.h.Documents {
		at = append(at, d.LSN.LSN)
	}
	for i, node := range []string{"n1", "n2"} {
		lines, states, err := model.Applied(node, model.Log{Entries: s.log}, at...)
		if err != nil {
			panic(err)
		}
		s.h.States = append(s.h.States, states...)
		if i > 0 {
			continue
		}
		s.h.Applied = lines
		by := make(map[history.LSN]string)
		for _, st := range states {
			by[st.LSN] = st.Hash
		}
		for i := range s.h.Documents {
			s.h.Documents[i].Replay = by[s.h.Documents[i].LSN]
		}
	}
	return &s.h
}
