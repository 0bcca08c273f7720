package fsm_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"google.golang.org/protobuf/proto"

	"osqueue/fsm"
	"osqueue/fsm/backoff"
	"osqueue/fsm/outbox"
	"osqueue/internal/storagetest/script"
)

// print shows a part of the state, if that is what d asks for.
func (p *player) print(t *testing.T, d *datadriven.TestData) (out string, ok bool) {
	v, c := p.m.View(), script.Of(t, d)
	switch d.Cmd {
	case "jobs":
		return p.jobs(c), true
	case "counts":
		return fmt.Sprintln(v.Counts()), true
	case "usage":
		return p.usage(t, c.ID(0)), true
	case "tokens":
		return linesOf(v.Tokens(""), tokenLine), true
	case "announced":
		return p.announced(), true
	case "hooks":
		return linesOf(v.Hooks, hookLine), true
	case "outbox":
		return p.outbox(t, c.ID(0)), true
	case "turned":
		return lines(p.m.Turned(), func(name string) string { return name }), true
	case "forecast":
		return p.forecast(t, d), true
	case "history":
		return lines(p.m.Job(c.ID(0)).Details().History, attemptLine), true
	case "workers":
		for w := range v.Workers("") {
			if p.m.Quiet(w.Name) != w.Quiet() {
				t.Errorf("%s: quiet %v in the machine, and %v in the view", w.Name, p.m.Quiet(w.Name), w.Quiet())
			}
		}
		return linesOf(v.Workers(""), workerLine), true
	case "artefacts":
		return linesOf(v.AllArtefacts, artefactLine), true
	case "claims":
		return linesOf(v.Claims, claimLine), true
	case "queues":
		return linesOf(v.Queues, queueLine), true
	case "turns":
		return linesOf(v.Turns, turnLine), true
	case "crons":
		return linesOf(v.Crons(""), cronLine), true
	case "runs":
		return linesOf(slices.Values(v.Cron(c.ID(0)).GetRuns()), runLine), true
	case "batches":
		return linesOf(v.Batches(""), batchLine), true
	case "holds":
		return linesOf(v.Holds, holdLine), true
	case "requests":
		return linesOf(v.Requests, requestLine), true
	case "types":
		return typeLines(p.m), true
	case "totals":
		m := v.Meta()
		return fmt.Sprintf("completed=%d dead=%d cancelled=%d\n", m.CompletedTotal, m.DeadTotal, m.CancelledTotal), true
	case "wakeups":
		return cmp.Or(wakeups(p.m), "none\n"), true
	}
	return "", false
}

// jobs prints all jobs, or those with the ids of the command.
func (p *player) jobs(c script.Command) string {
	if len(c.IDs) == 0 {
		return lines(jobsOf(p.m.View()), jobLine)
	}
	return lines(c.IDs, func(id string) string {
		if j := p.m.Job(id); j != nil {
			return jobLine(j)
		}
		return id + " is not there"
	})
}

// usage prints the open jobs of an account, also as a restored machine counts them.
func (p *player) usage(t *testing.T, account string) string {
	jobs, bytes := p.m.AccountUsage(account)
	if j, b := copyOf(t, p.m).AccountUsage(account); j != jobs || b != bytes {
		t.Errorf("a restored machine counts %d jobs and %d bytes", j, b)
	}
	return fmt.Sprintf("%d jobs, %d bytes\n", jobs, bytes)
}

// announced prints the conditions that were announced, and not yet their end.
func (p *player) announced() string {
	meta := p.m.Meta()
	begun := slices.DeleteFunc(slices.Clone(script.Announcements), func(name string) bool {
		k := slices.Index(script.Announcements, name)
		return k%2 == 0 || !fsm.Announces(meta, fsm.AnnounceKind(k))
	})
	return cmp.Or(strings.Join(begun, " "), "none") + "\n"
}

// outbox prints the events of a hook, which a restored machine has, too.
func (p *player) outbox(t *testing.T, hook string) string {
	events := outboxOf(p.m, hook)
	if again := outboxOf(copyOf(t, p.m), hook); !slices.EqualFunc(events, again, func(a, b *outbox.Event) bool { return proto.Equal(a, b) }) {
		t.Errorf("a restored machine has the events %v", again)
	}
	if n := len(events); n > longList {
		return fmt.Sprintf("%d events, the last: %s\n", n, hookEventLine(events[n-1]))
	}
	return lines(events, hookEventLine)
}

// outboxOf returns the events in the outbox of a hook.
func outboxOf(m *fsm.Machine, hook string) []*outbox.Event {
	return slices.Collect(m.View().HookEvents(hook, outbox.EventID{}))
}

// forecast prints how many jobs of each type an entry of these commands would make claimable, or a group of them.
func (p *player) forecast(t *testing.T, d *datadriven.TestData) string {
	found, before := make(map[string]int), p.m.View().Hash()
	f := p.m.NewForecast(p.m.Now(), func(jobType string, n int) { found[jobType] += n })
	entry := *d
	entry.Cmd, entry.CmdArgs = cmp.Or(script.Of(t, d).ID(0), "entry"), nil
	for _, m := range p.tokens().Mutations(t, &entry) {
		f.Add(m)
	}
	if p.m.View().Hash() != before {
		t.Error("the forecast changed the machine")
	}
	return fmt.Sprintln(found)
}

// longList is the length from which on lists are printed as their number.
const longList = 100

// outcome prints what an entry did.
func outcome(m *fsm.Machine, results []fsm.Result) string {
	var b strings.Builder
	for _, r := range results {
		b.WriteString(resultLine(r) + "\n")
	}
	var all []string
	for _, e := range m.Events() {
		all = append(all, "  "+eventLine(e)+byActor(e.Actor)+"\n")
	}
	if len(all) > longList {
		counted := make(map[string]int)
		for _, line := range all {
			_, what, _ := strings.Cut(line, ": ")
			counted[what]++
		}
		all = nil
		for _, what := range slices.Sorted(maps.Keys(counted)) {
			all = append(all, fmt.Sprintf("  %d × %s", counted[what], what))
		}
	}
	b.WriteString(strings.Join(all, ""))
	fmt.Fprintf(&b, "now %d", m.Now())
	return b.String()
}

func resultLine(r fsm.Result) string {
	s := r.Code.String()
	if n := len(r.Jobs); n > longList {
		return fmt.Sprintf("%s, %d jobs, from %s to %s", s, n, cmp.Or(r.Jobs[0], &fsm.Job{}).ID, cmp.Or(r.Jobs[n-1], &fsm.Job{}).ID)
	}
	for i, j := range r.Jobs {
		s += " "
		refused := len(r.Codes) > 0 && r.Codes[i] != fsm.OK
		if refused {
			s += fmt.Sprintf("(%v)", r.Codes[i])
		}
		switch {
		case j == nil && !refused:
			s += "-"
		case j == nil:
		case j.Status == fsm.InProgress:
			s += fmt.Sprintf("%s[%s]", j.ID, token(j.Execution().Token))
		default:
			s += j.ID
		}
	}
	if r.Count > 0 {
		s += fmt.Sprintf(", %d changed", r.Count)
	}
	if r.Next != (fsm.Place{}) {
		s += fmt.Sprintf(", on behind (%v,%d)", r.Next.Status, r.Next.Seq)
	}
	if r.LSN != (fsm.LSN{}) {
		s += fmt.Sprintf(", first answered at %d", r.LSN.Index)
	}
	return s
}

var eventNames = map[fsm.EventKind]string{
	fsm.BrokerRegistered: "broker", fsm.WorkerRegistered: "worker registered", fsm.WorkerDied: "worker died",
	fsm.QueueSet: "queue set", fsm.CronPut: "cron put", fsm.CronDeleted: "cron deleted", fsm.CronFired: "cron fired",
	fsm.CronSkipped: "cron skipped", fsm.BatchEnded: "batch ended",
	fsm.BucketAway: "bucket away", fsm.BucketBack: "bucket back",
	fsm.WritesRefused: "writes refused", fsm.WritesAccepted: "writes accepted",
	fsm.BucketDamaged: "bucket damaged", fsm.BucketHealed: "bucket healed", fsm.WorkerSet: "worker set",
}

func byActor(actor string) string {
	if actor == "" {
		return ""
	}
	return ", by " + actor
}

func eventLine(e fsm.Event) string {
	switch e.Kind {
	case fsm.JobChanged:
		return fmt.Sprintf("%s: %s → %v", e.Job.ID, cmp.Or(e.From.String(), "new"), e.Job.Status)
	case fsm.JobRemoved:
		return fmt.Sprintf("%s: %v → removed", e.Job.ID, e.From)
	case fsm.JobProgress:
		p := e.Job.Details().Progress
		return strings.TrimSpace(fmt.Sprintf("%s: %d %% %s", e.Job.ID, p.Percent, p.Message))
	case fsm.JobCancelled:
		return e.Job.ID + ": cancellation requested"
	case fsm.JobEdited:
		return e.Job.ID + ": edited"
	case fsm.JobSignalled:
		return e.Job.ID + ": signal " + e.Text
	}
	if e.Job != nil {
		return fmt.Sprintf("%s: %s, job %s", eventNames[e.Kind], e.Name, e.Job.ID)
	}
	if e.Text != "" {
		return fmt.Sprintf("%s: %s says %d bytes: %s", eventNames[e.Kind], cmp.Or(e.Name, "nobody"), len(e.Text), e.Text)
	}
	return fmt.Sprintf("%s: %s", eventNames[e.Kind], e.Name)
}

// wakeUp prints when m wants to be woken. A lazily moved timer may want it
// too early, which a restored machine does not.
func wakeUp(m *fsm.Machine) string {
	at, ok := m.NextDeadline(nil)
	if !ok {
		return "\n"
	}
	return fmt.Sprintf(", next deadline +%d\n", at-m.Now())
}

// wakeups prints for how many jobs of which types the last entry woke claims.
func wakeups(m *fsm.Machine) string {
	var b strings.Builder
	m.Wakeups(func(jobType string, n int) { fmt.Fprintf(&b, "wake %s×%d\n", jobType, n) })
	return b.String()
}

// token prints a fencing token as the epoch and the number in it.
func token(t uint64) string { return fmt.Sprintf("%d.%d", t>>32, t&(1<<32-1)) }

// linesOf prints what a scan over a part of the state comes by.
func linesOf[T any](scan func(func(T) bool), line func(T) string) string {
	var list []T
	scan(func(item T) bool { list = append(list, item); return true })
	return lines(list, line)
}

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

// sheet is a line of members, of which only those are there that say something.
type sheet struct{ strings.Builder }

func (s *sheet) add(key string, value any, there bool) {
	if there {
		fmt.Fprintf(s, " %s=%v", key, value)
	}
}

// num adds a number that is not the usual one.
func (s *sheet) num(key string, n, usual int64) { s.add(key, n, n != usual) }

func (s *sheet) text(key, text string) { s.add(key, text, text != "") }

func (s *sheet) flag(name string, on bool) {
	if on {
		s.WriteString(" " + name)
	}
}

func jobLine(j *fsm.Job) string {
	var s sheet
	running := j.Status == fsm.InProgress
	fmt.Fprintf(&s, "%s %v attempts=%d", j.ID, j.Status, j.Attempts)
	s.num("of", int64(j.MaxAttempts), fsm.MaxAttemptsUnset)
	s.text("type", j.Type)
	s.num("priority", int64(j.Priority), 0)
	s.num("runAt", j.RunAt, 0)
	s.text("worker", strings.ReplaceAll(j.Execution().Worker, fsm.Anonymous, "nobody"))
	s.add("token", token(j.Execution().Token), running)
	s.add("claimed", j.Execution().ClaimedAt, running)
	s.add("heartbeat", j.Execution().Heartbeat, running)
	s.add("lease", j.Execution().HeldMs, running)
	s.flag("unconfirmed", j.Execution().Unconfirmed)
	s.num("finished", j.Execution().FinishedAt, 0)
	s.text("result", string(j.Execution().Result))
	s.add("error", strconv.Quote(j.Execution().LastError), j.Execution().LastError != "")
	s.options(j.Options())
	s.details(j.Details())
	return s.String()
}

func (s *sheet) options(o *fsm.Options) {
	s.text("group", o.Group)
	s.text("tags", strings.Join(o.Tags, ","))
	s.text("unique", o.Unique.Key)
	s.text("batch", o.Batch)
	s.text("step", o.Step)
	s.text("names", strings.Join(o.AfterNames, ","))
	s.text("cron", o.Cron)
	for _, h := range o.Headers {
		s.text(h.Name, h.Value)
	}
	s.num("before", o.StartBefore, 0)
	s.num("retain", o.RetainMs, 0)
	s.num("rules", int64(len(o.OnError)), 0)
}

func (s *sheet) details(d *fsm.Details) {
	s.text("waits", strings.ReplaceAll(strings.Join(d.Waits, ","), "\x00", ""))
	s.add("in line", "", d.InLine)
	s.num("timeout", d.TimeoutMs, 0)
	s.num("cancelAt", d.CancelAt, 0)
	s.add("progress", fmt.Sprintf("%d%%@%d", d.Progress.Percent, d.ProgressAt), d.ProgressAt != 0)
	s.text("message", d.Progress.Message)
	s.text("log", d.Log)
	for _, one := range d.Steps {
		s.text("step:"+one.Name, string(one.Value))
	}
	for _, one := range d.Signals {
		s.text("signal:"+one.Name, fmt.Sprintf("%s@%d", one.Value, one.AtMs))
	}
	s.text("awaits", d.Awaits)
	for _, l := range d.Links {
		s.num("link:"+l.Signal, l.UntilMs, 0)
	}
}

func artefactLine(a *fsm.Artefact) string {
	var s sheet
	fmt.Fprintf(&s, "%s size=%d until=%d", a.Id, a.Size, a.UntilMs)
	s.text("job", a.JobId)
	s.text("name", a.Name)
	s.num("released", a.ReleasedMs, 0)
	return s.String()
}

func attemptLine(a fsm.Attempt) string {
	return strings.TrimSpace(fmt.Sprintf("%d: %d to %d, %s, %v %q %s", a.Number, a.StartedAt, a.EndedAt, a.Worker, a.End, a.Error, a.Class))
}

func workerLine(w *fsm.Worker) string {
	var s sheet
	fmt.Fprintf(&s, "%s registered=%d seen=%d", w.Name, w.RegisteredAtMs, w.LastSeenMs)
	s.num("instance", int64(w.Instance), 0)
	s.num("quiet", w.QuietSinceMs, 0)
	s.text("by", w.QuietedBy)
	s.num("gone", w.GoneAtMs, 0)
	return s.String()
}

func tokenLine(k *fsm.Token) string {
	var s sheet
	s.WriteString(k.Id)
	s.num("expires", k.ExpiresMs, 0)
	return s.String()
}

func hookLine(h *outbox.Hook) string {
	return fmt.Sprintf("%s pending=%d bytes=%d of %d, delivered=%d dropped=%d", h.Name, h.Pending, h.Bytes, h.BufferBytes, h.Delivered, h.Dropped)
}

func hookEventLine(e *outbox.Event) string {
	return strings.TrimSpace(fmt.Sprintf("%d-%d-%d %v at=%d %s", e.Term, e.Index, e.N, outbox.Kind(e.Kind), e.AtMs, e.JobId)) + byActor(e.Actor)
}

func claimLine(r *fsm.ClaimRecord) string {
	s := fmt.Sprintf("%s %s at=%d", r.Worker, r.RequestId, r.ClaimedAtMs)
	for i, id := range r.JobIds {
		s += fmt.Sprintf(" %s[%s]", id, token(r.FirstToken+uint64(i)))
	}
	return s
}

func queueLine(q *fsm.QueueSettings) string {
	var s sheet
	s.WriteString(q.Name)
	s.flag("paused", q.Paused)
	p := q.Pause
	s.add("pause", fmt.Sprintf("{Reason:%s By:%s Since:%d Until:%d}", p.GetReason(), p.GetBy(), p.GetSinceMs(), p.GetUntilMs()), p != nil)
	s.num("running", q.MaxRunning, 0)
	s.num("pergroup", q.MaxRunningPerGroup, 0)
	s.num("rate", q.RateMilli, 0)
	s.num("burst", q.Burst, 0)
	s.num("aging", q.AgingMs, 0)
	s.num("lease", q.LeaseMs, 0)
	s.num("timeout", q.TimeoutMs, 0)
	s.num("attempts", q.MaxAttempts, fsm.Unset)
	b := backoff.FromPB(q.Backoff)
	s.add("backoff", fmt.Sprintf("(%v,%d,%d,%d)", b.Kind, b.BaseMs, b.CapMs, b.Jitter), b != backoff.Backoff{})
	s.num("retain", q.RetainMs, fsm.Unset)
	s.num("keep", q.RetainCount, fsm.Unset)
	s.add("retainDead", q.GetRetainDeadMs(), q.RetainDeadMs != nil)
	s.add("keepDead", q.GetRetainDeadCount(), q.RetainDeadCount != nil)
	s.num("jobs", q.MaxJobs, 0)
	s.num("bytes", q.MaxBytes, 0)
	s.num("payload", q.MaxPayload, 0)
	s.add("level", fmt.Sprintf("%d@%d", q.Level, q.LevelAtMs), q.RateMilli != 0)
	return s.String()
}

func turnLine(t *fsm.Turn) string {
	return fmt.Sprintf("%s %s %d", t.Type, cmp.Or(t.Group, "(no group)"), t.Turn)
}

func cronLine(c *fsm.Cron) string {
	var s sheet
	s.WriteString(c.Name)
	s.flag("paused", c.Paused)
	s.num("next", c.NextAtMs, 0)
	s.add("overlap", fsm.OverlapPolicy(c.Overlap), c.Overlap != 0)
	s.add("missed", fsm.MissedPolicy(c.Missed), c.Missed != 0)
	s.num("created", c.CreatedAtMs, 0)
	s.num("updated", c.UpdatedAtMs, c.CreatedAtMs)
	s.num("last", c.LastAtMs, 0)
	s.text("job", c.LastJobId)
	s.text("id", c.Job.GetId())
	s.num("start", c.StartMs, 0)
	s.num("end", c.EndMs, 0)
	s.num("jitter", c.JitterMs, 0)
	s.num("max", int64(c.MaxFires), 0)
	fmt.Fprintf(&s, " fired/skipped/missed=%d/%d/%d", c.Fired, c.Skipped, c.MissedCount)
	s.add("error", strconv.Quote(c.LastError), c.LastError != "")
	return s.String()
}

func runLine(r *fsm.CronRun) string {
	var s sheet
	fmt.Fprint(&s, r.AtMs)
	s.text("job", r.JobId)
	s.flag("duplicate", r.Duplicate)
	s.add("ended", fsm.Status(r.Status), r.Status != 0)
	s.add("skipped", strconv.Quote(r.Reason), r.Reason != "")
	return s.String()
}

func batchLine(b *fsm.JobBatch) string {
	var s sheet
	fmt.Fprintf(&s, "%s total=%d completed=%d dead=%d cancelled=%d created=%d",
		b.Id, b.Total, b.Completed, b.Dead, b.Cancelled, b.CreatedAtMs)
	s.num("ended", b.EndedAtMs, 0)
	s.text("callback", b.Callback.GetId())
	s.add("on", fsm.CallbackOn(b.CallbackOn), b.CallbackOn != 0)
	s.flag("called", b.Called)
	s.text("of", b.Parent)
	return s.String()
}

func holdLine(h *fsm.Hold) string {
	return fmt.Sprintf("%s %s by %s until %d", h.Type, h.Key, h.JobId, h.UntilMs)
}

func requestLine(r *fsm.RequestRecord) string {
	s := fmt.Sprintf("%s %q at=%d entry=%d %v", r.Key, r.Fingerprint, r.AtMs, r.Index, fsm.Code(r.Code))
	for _, i := range r.Items {
		s += fmt.Sprintf(" %s[%s]:%v:%v", i.JobId, token(i.Token), cmp.Or(fsm.Status(i.Status).String(), "none"), fsm.Code(i.Code))
	}
	return s
}

// typeLines prints how many jobs, and bytes, each type has.
func typeLines(m *fsm.Machine) string {
	var list []string
	m.Types(func(name string, ts fsm.TypeStats) bool {
		var s sheet
		s.WriteString(cmp.Or(name, "(no type)"))
		for _, status := range allStatuses {
			s.num(status.String(), int64(ts.Counts.Of(status)), 0)
		}
		list = append(list, fmt.Sprintf("%s bytes=%d", s.String(), ts.Bytes))
		return true
	})
	slices.Sort(list)
	return lines(list, func(s string) string { return s })
}
