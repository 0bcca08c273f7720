package fsm_test

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

// TestTranscripts plays the files of testdata/transcripts. A command is one
// log entry and prints its results and events:
//
//	enqueue ID… [type=T] [priority=N] [at=MS] [attempts=N] [lease=MS] [payload=TEXT]
//	claim worker=W [max=N] [types=(T,…)] [request=R] [lease=MS]
//	heartbeat worker=W ID…      complete worker=W ID [result=TEXT]
//	fail worker=W ID [permanent] [delay=MS] [error=TEXT]      release worker=W ID
//	register worker=W           dead worker=W
//	broker node=N epoch=E [attempts=N] [lease=MS] [timeout=MS] [retain=MS] [keep=N]
//	tick                        entry (several commands, one a line, in one entry)
//
// with an optional t=MS, the leader's clock, or t=+MS; by default it stands
// still. Reports carry the job's last token unless token= says another
// (epoch.counter, or none). "jobs", "workers" and "claims" print the state.
//
// Before each entry a second machine is restored from a snapshot of the first
// and must do the same. Rewrite the files with: go test ./fsm -run Transcripts -rewrite
func TestTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata/transcripts", func(t *testing.T, path string) {
		p := &player{m: fsm.New()}
		datadriven.RunTest(t, path, p.play)
	})
}

type player struct {
	m *fsm.Machine
}

func (p *player) play(t *testing.T, d *datadriven.TestData) string {
	switch d.Cmd {
	case "jobs":
		return lines(jobsOf(p.m.View()), jobLine)
	case "workers":
		var list []*fsm.Worker
		p.m.View().Workers(func(w *fsm.Worker) bool { list = append(list, w); return true })
		return lines(list, workerLine)
	case "claims":
		var list []*fsm.ClaimRecord
		p.m.View().Claims(func(r *fsm.ClaimRecord) bool { list = append(list, r); return true })
		return lines(list, claimLine)
	}
	b := &fsmpb.Batch{NowMs: p.clock(t, d)}
	for _, line := range commands(d) {
		b.Mutations = append(b.Mutations, p.mutation(t, line))
	}
	return p.apply(t, b)
}

// apply runs the entry on the machine and on a restored copy of it.
func (p *player) apply(t *testing.T, b *fsmpb.Batch) string {
	twin := copyOf(t, p.m)
	data := entry(t, b)
	out := outcome(p.m, p.m.Apply(p.m.Meta().LSN.Index+1, 1, decode(t, data)))
	again := outcome(twin, twin.Apply(twin.Meta().LSN.Index+1, 1, decode(t, data)))
	if again != out || twin.View().Hash() != p.m.View().Hash() {
		t.Errorf("a restored machine did something else:\n%s", again)
	}
	if err := p.m.CheckIndexes(); err != nil {
		t.Error(err)
	}
	return out + wakeUp(p.m)
}

// clock is the leader's: where it stood, or what t= says.
func (p *player) clock(t *testing.T, d *datadriven.TestData) int64 {
	now := p.m.Meta().Now
	if d.HasArg("t") {
		var text string
		d.ScanArgs(t, "t", &text)
		ms := number(t, text)
		if strings.HasPrefix(text, "+") {
			return now + ms
		}
		return ms
	}
	return now
}

// command is one line of a transcript.
type command struct {
	name  string
	ids   []string // arguments without a value
	named map[string][]string
}

func commands(d *datadriven.TestData) []command {
	switch d.Cmd {
	case "tick":
		return nil
	case "entry":
		var list []command
		for line := range strings.Lines(d.Input) {
			name, args, err := datadriven.ParseLine(line)
			if err != nil {
				panic(err)
			}
			list = append(list, parsed(name, args))
		}
		return list
	}
	return []command{parsed(d.Cmd, d.CmdArgs)}
}

func parsed(name string, args []datadriven.CmdArg) command {
	c := command{name: name, named: make(map[string][]string)}
	for _, a := range args {
		if len(a.Vals) == 0 {
			c.ids = append(c.ids, a.Key)
		}
		c.named[a.Key] = a.Vals
	}
	return c
}

func (c command) text(key string) string { return strings.Join(c.named[key], ",") }

func (c command) number(t *testing.T, key string, otherwise int64) int64 {
	if v := c.named[key]; len(v) == 1 {
		return number(t, v[0])
	}
	return otherwise
}

func number(t *testing.T, text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func (p *player) mutation(t *testing.T, c command) *fsmpb.Mutation {
	worker := c.text("worker")
	if worker == "nobody" {
		worker = fsm.Anonymous
	}
	switch c.name {
	case "enqueue":
		return enqueueCommand(t, c)
	case "claim":
		m := claim(worker, uint32(c.number(t, "max", 1)), c.named["types"]...)
		m.GetClaim().RequestId, m.GetClaim().LeaseMs = c.text("request"), c.number(t, "lease", 0)
		return m
	case "heartbeat":
		op := &fsmpb.Heartbeat{Worker: worker}
		for _, id := range c.ids {
			op.Leases = append(op.Leases, &fsmpb.Lease{JobId: id, Token: p.token(t, c, id)})
		}
		return &fsmpb.Mutation{Op: &fsmpb.Mutation_Heartbeat{Heartbeat: op}}
	case "complete":
		m := complete(worker, c.ids[0], p.token(t, c, c.ids[0]))
		m.GetComplete().Result = []byte(c.text("result"))
		return m
	case "fail":
		m := fail(worker, c.ids[0], p.token(t, c, c.ids[0]), c.text("error"), slices.Contains(c.ids, "permanent"))
		if len(c.named["delay"]) == 1 {
			delay := c.number(t, "delay", 0)
			m.GetFail().RetryDelayMs = &delay
		}
		return m
	case "release":
		return release(worker, c.ids[0], p.token(t, c, c.ids[0]))
	case "register":
		return registerWorker(worker)
	case "dead":
		return workerDead(worker)
	case "broker":
		return brokerCommand(t, c)
	}
	t.Fatalf("command %q is not known", c.name)
	return nil
}

func enqueueCommand(t *testing.T, c command) *fsmpb.Mutation {
	m := enqueueType(c.text("type"), c.ids...)
	for _, n := range m.GetEnqueue().Jobs {
		n.Payload = []byte(c.text("payload"))
		n.Priority = int32(c.number(t, "priority", 0))
		n.RunAtMs, n.LeaseMs = c.number(t, "at", 0), c.number(t, "lease", 0)
		if attempts := int32(c.number(t, "attempts", fsm.MaxAttemptsUnset)); attempts != fsm.MaxAttemptsUnset {
			n.MaxAttempts = &attempts
		}
	}
	return m
}

func brokerCommand(t *testing.T, c command) *fsmpb.Mutation {
	s := fsm.DefaultSettings()
	s.MaxAttempts = int32(c.number(t, "attempts", int64(s.MaxAttempts)))
	s.LeaseMs = c.number(t, "lease", s.LeaseMs)
	s.WorkerTimeoutMs = c.number(t, "timeout", s.WorkerTimeoutMs)
	s.RetainCompletedMs = c.number(t, "retain", s.RetainCompletedMs)
	s.RetainCompletedCount = c.number(t, "keep", s.RetainCompletedCount)
	return registerBroker(c.text("node"), uint64(c.number(t, "epoch", 0)), s)
}

func (p *player) token(t *testing.T, c command, id string) uint64 {
	switch text := c.text("token"); {
	case text == "none":
		return 0
	case text != "":
		epoch, counter, _ := strings.Cut(text, ".")
		return uint64(number(t, epoch)<<32 + number(t, counter))
	case p.m.Job(id) == nil:
		return 1
	}
	return p.m.Job(id).Token
}

// outcome prints what an entry did.
func outcome(m *fsm.Machine, results []fsm.Result) string {
	var b strings.Builder
	for _, r := range results {
		b.WriteString(r.Code.String())
		for i, j := range r.Jobs {
			b.WriteString(" ")
			if len(r.Codes) > 0 && r.Codes[i] != fsm.OK {
				fmt.Fprintf(&b, "(%v)", r.Codes[i])
			}
			if j != nil {
				b.WriteString(j.ID)
			}
			if j != nil && j.Status == fsm.InProgress {
				fmt.Fprintf(&b, "[%s]", token(j.Token))
			}
		}
		b.WriteString("\n")
	}
	for _, e := range m.Events() {
		b.WriteString("  " + eventLine(e) + "\n")
	}
	fmt.Fprintf(&b, "now %d", m.Meta().Now)
	return b.String()
}

var eventNames = map[fsm.EventKind]string{
	fsm.BrokerRegistered: "broker", fsm.WorkerRegistered: "worker registered", fsm.WorkerDied: "worker died",
	fsm.QueueSet: "queue set", fsm.CronPut: "cron put", fsm.CronDeleted: "cron deleted", fsm.CronFired: "cron fired",
	fsm.CronSkipped: "cron skipped", fsm.BatchEnded: "batch ended",
}

func eventLine(e fsm.Event) string {
	switch e.Kind {
	case fsm.JobChanged:
		return fmt.Sprintf("%s: %s → %v", e.Job.ID, cmp.Or(e.From.String(), "new"), e.Job.Status)
	case fsm.JobRemoved:
		return fmt.Sprintf("%s: %v → removed", e.Job.ID, e.From)
	case fsm.JobProgress:
		p := e.Job.Details().Progress
		return fmt.Sprintf("%s: %d %% %s", e.Job.ID, p.Percent, p.Message)
	case fsm.JobCancelled:
		return e.Job.ID + ": cancellation requested"
	}
	return fmt.Sprintf("%s: %s", eventNames[e.Kind], e.Name)
}

// wakeUp prints when m wants to be woken. A lazily moved timer may want it
// too early, which a restored machine does not.
func wakeUp(m *fsm.Machine) string {
	at, ok := m.NextDeadline()
	if !ok {
		return "\n"
	}
	return fmt.Sprintf(", next deadline +%d\n", at-m.Meta().Now)
}

// token prints a fencing token as the epoch and the number in it.
func token(t uint64) string { return fmt.Sprintf("%d.%d", t>>32, t&(1<<32-1)) }

func lines[T any](list []T, line func(T) string) string {
	var b strings.Builder
	for _, item := range list {
		b.WriteString(strings.TrimSpace(line(item)) + "\n")
	}
	if b.Len() == 0 {
		return "none\n"
	}
	return b.String()
}

func jobLine(j *fsm.Job) string {
	s := fmt.Sprintf("%s %v attempts=%d", j.ID, j.Status, j.Attempts)
	add := func(key string, value any, there bool) {
		if there {
			s += fmt.Sprintf(" %s=%v", key, value)
		}
	}
	add("of", j.MaxAttempts, j.MaxAttempts != fsm.MaxAttemptsUnset)
	add("type", j.Type, j.Type != "")
	add("priority", j.Priority, j.Priority != 0)
	add("runAt", j.RunAt, j.RunAt != 0)
	add("worker", strings.ReplaceAll(j.Worker, fsm.Anonymous, "nobody"), j.Worker != "")
	add("token", token(j.Token), j.Status == fsm.InProgress)
	add("claimed", j.ClaimedAt, j.Status == fsm.InProgress)
	add("heartbeat", j.Heartbeat, j.Status == fsm.InProgress)
	add("lease", j.HeldMs, j.Status == fsm.InProgress)
	add("finished", j.FinishedAt, j.FinishedAt != 0)
	add("result", string(j.Result), len(j.Result) > 0)
	add("error", strconv.Quote(j.LastError), j.LastError != "")
	return s
}

func workerLine(w *fsm.Worker) string {
	return fmt.Sprintf("%s registered=%d seen=%d", w.Name, w.RegisteredAt, w.LastSeen)
}

func claimLine(r *fsm.ClaimRecord) string {
	s := fmt.Sprintf("%s %s at=%d", r.Worker, r.RequestID, r.ClaimedAt)
	for _, l := range r.Leases {
		s += fmt.Sprintf(" %s[%s]", l.JobID, token(l.Token))
	}
	return s
}
