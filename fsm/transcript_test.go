package fsm_test

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/internal/storagetest/script"
)

// TestTranscripts plays the files of testdata/transcripts. A command is one
// log entry and prints its results and events:
//
//	enqueue ID… [JOB] [newbatch=B [callback=ID [calltype=T] [callkey=K] [on=ended|completed|failed]] [of=ID]] [parent=(W,ID)]
//	claim worker=W [max=N] [types=(T,…)] [request=R] [lease=MS] [instance=N] [confirms]
//	heartbeat worker=W ID… [percent=N] [message=TEXT]
//	complete worker=W ID [result=TEXT] [log=TEXT]
//	fail worker=W ID [permanent] [delay=MS] [error=TEXT]      release worker=W ID
//	step worker=W ID name=N [value=TEXT]
//	suspend worker=W ID until=MS [signal=N]      suspend worker=W ID endof=BATCH
//	signal ID name=N [value=TEXT] [id=I] [link=SECRET]       link ID name=N secret=TEXT until=MS
//	retryflow ID [fresh=yes]
//	reserve ID until=MS [size=N] [quota=…]      attach worker=W ID name=N file=ID      drop ID…
//	force ID [result=TEXT]
//	register worker=W [instance=N]       dead worker=W [instance=N]       quiet worker=W [no]
//	cancel|retry|delete ID… [fresh=yes]     or, by filter: cancel|retry|delete all [status=(S,…)] [type=T]
//	    [tag=T] [group=G] [batch=B] [worker=W] [from=MS] [before=MS] [limit=N] [behind=(S,SEQ)]
//	setqueue T [remove] [paused[=no] [reason=TEXT] [by=TEXT] [until=MS]] [running=N] [pergroup=N] [rate=N] [burst=N] [lease=MS]
//	    [timeout=MS] [attempts=N] [backoff=…] [retain=MS] [keep=N] [jobs=N] [bytes=N] [payload=N]
//	cron put NAME [next=MS] [spec=S] [zone=Z] [start=MS] [end=MS] [jitter=MS] [max=N] [overlap=skip] [missed=one|all] [paused] [JOB]
//	cron pause|resume|delete NAME [next=MS] [spec=S] [zone=Z]
//	cron fire NAME due=MS at=MS [missed=N] [next=MS] [spec=S] [zone=Z] job=ID
//	cron trigger NAME job=ID
//	broker node=N epoch=E [attempts=N] [lease=MS] [timeout=MS] [retain=MS] [keep=N]
//	    [requestms=MS] [requests=N] [jobs=N] [bytes=N] [payload=N]
//	announce away|back|refused|accepted|damaged|healed [text=TEXT] [times=N]
//	token create ID [role=R] [replaces=ID [overlap=MS]]        token revoke ID
//	hook put|delete|test NAME [bytes=N]       hook delivered NAME EVENT
//	tick
//	entry (several commands, one a line, in one entry)
//	group (several commands, one a line, as one mutation)
//	repeat times=N (several commands, one a line, as one entry, N times; # is the number of the entry)
//
// JOB is [type=T] [priority=N] [at=MS] [attempts=N] [lease=MS] [payload=TEXT | size=N]
// [backoff=(KIND,BASE[,CAP[,JITTER]])] [timeout=MS] [group=G] [tags=(T,…)]
// [unique=(KEY,SCOPE[,PERIOD[,CONFLICT]])] [files=(NAME:ID,…)] [after=(ID,…) [names=(N,…)]] [afterbatches=(B,…)] [failure=block|cancel|run|only] [batch=B [step=N]]
// [quota=(ACCOUNT,JOBS,BYTES)].
// An enqueue may have more jobs, each with a JOB of its own, one a line, and "many=N prefix=P" makes N jobs.
//
// Every command takes key=K and print=F, the request key and its fingerprint, and actor=NAME;
// the whole entry dice=N, and t=MS, the leader's clock, or t=+MS; by default it
// stands still. Reports carry the job's last token unless token= says another
// (epoch.counter, or none).
//
// These print the state: jobs [ID…], counts, history ID, workers, claims, queues, types,
// turns, crons, runs CRON, batches, holds, artefacts, requests, totals, tokens, usage ACCOUNT, announced, hooks, outbox HOOK;
// wakeups what the last entry woke, turned the workers that it made quiet or not; forecast [group] (several
// commands, one a line) what an entry would wake. Long lists are printed as their number.
//
// "save" keeps the state, and "back" returns to it; "budgets SETTLE FIRE RETIRE" bounds the work of each entry.
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
	m       *fsm.Machine
	saved   []byte
	budgets []int64
}

func (p *player) play(t *testing.T, d *datadriven.TestData) string {
	switch d.Cmd {
	case "save":
		p.saved = snapshot(t, p.m)
		return ""
	case "back":
		p.m = restored(t, p.saved)
		return ""
	case "budgets":
		p.budgets = nil
		for _, text := range script.Of(t, d).IDs {
			p.budgets = append(p.budgets, script.Number(t, text))
		}
		p.shrink(p.m)
		return ""
	case "repeat":
		return p.repeat(t, d)
	}
	if out, ok := p.print(t, d); ok {
		return out
	}
	b := &fsmpb.Batch{NowMs: p.clock(t, d), Random: randomOf(t, d), Mutations: p.tokens().Mutations(t, d)}
	return p.apply(t, b)
}

// shrink gives a machine the budgets of the transcript.
func (p *player) shrink(m *fsm.Machine) *fsm.Machine {
	if p.budgets != nil {
		m.SetBudgets(int(p.budgets[0]), int(p.budgets[1]), int(p.budgets[2]))
	}
	return m
}

var givenToken = regexp.MustCompile(`\[\d+\.\d+\]`)

// repeat applies an entry several times. Of equal outcomes in a row it prints the first, with their number.
func (p *player) repeat(t *testing.T, d *datadriven.TestData) string {
	var out strings.Builder
	last, equal, now := "", 0, ""
	flush := func() {
		if equal > 0 {
			fmt.Fprintf(&out, "%d times:\n%s", equal, last)
		}
	}
	for i := range script.Of(t, d).Number("times", 1) {
		round := *d
		round.Input = strings.ReplaceAll(d.Input, "#", strconv.FormatInt(i, 10))
		round.Cmd = "entry"
		got := p.apply(t, &fsmpb.Batch{NowMs: p.clock(t, d), Mutations: p.tokens().Mutations(t, &round)})
		at := strings.LastIndex(got, "now ")
		got, now = givenToken.ReplaceAllString(got[:at], ""), got[at:]
		got = regexp.MustCompile(`([a-z])`+strconv.FormatInt(i, 10)+`\b`).ReplaceAllString(got, "$1#")
		if got != last {
			flush()
			last, equal = got, 0
		}
		equal++
	}
	flush()
	return out.String() + now
}

// apply runs the entry on the machine and on a restored copy of it.
func (p *player) apply(t *testing.T, b *fsmpb.Batch) string {
	restoredCopy, bare := p.shrink(copyOf(t, p.m)), p.shrink(copyOf(t, p.m))
	data := entry(t, b)
	out := outcome(p.m, p.m.Apply(p.m.LSN().Index+1, 1, decode(t, data)))
	again := outcome(restoredCopy, restoredCopy.Apply(restoredCopy.LSN().Index+1, 1, decode(t, data)))
	if again != out || restoredCopy.View().Hash() != p.m.View().Hash() || wakeups(restoredCopy) != wakeups(p.m) {
		t.Errorf("a restored machine did something else:\n%s", again)
	}
	nameless := decode(t, data)
	for _, m := range nameless.Mutations {
		m.Actor = ""
	}
	bare.Apply(bare.LSN().Index+1, 1, nameless)
	if hooks := len(collected(p.m.View().Hooks)); hooks == 0 && bare.View().Hash() != p.m.View().Hash() { // their events have actors
		t.Error("the state depends on the actor")
	}
	if due := wantsMore(p.m); due != wantsMore(restoredCopy) {
		t.Errorf("a restored machine wants another entry at once: %v, want %v", !due, due)
	}
	// Retention that the entry had no budget for may come later.
	if err := p.m.CheckIndexes(); err != nil && (!wantsMore(p.m) || !strings.Contains(err.Error(), "finished jobs too many")) {
		t.Error(err)
	}
	return out + wakeUp(p.m)
}

// wantsMore reports whether a machine asks for another entry at once.
func wantsMore(m *fsm.Machine) bool {
	at, ok := m.NextDeadline(nil)
	return ok && at <= m.Now()
}

// clock is the leader's: where it stood, or what t= says.
func (p *player) clock(t *testing.T, d *datadriven.TestData) int64 {
	now := p.m.Now()
	if d.HasArg("t") {
		var text string
		d.ScanArgs(t, "t", &text)
		ms := script.Number(t, text)
		if strings.HasPrefix(text, "+") {
			return now + ms
		}
		return ms
	}
	return now
}

// randomOf returns the leader's random number for the entry, the argument dice.
func randomOf(t *testing.T, d *datadriven.TestData) uint64 {
	if !d.HasArg("dice") {
		return 0
	}
	var text string
	d.ScanArgs(t, "dice", &text)
	n, err := strconv.ParseUint(text, 0, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// tokens returns the token of a job's last attempt.
func (p *player) tokens() script.Tokens {
	return func(id string) uint64 {
		if j := p.m.Job(id); j != nil {
			return j.Execution().Token
		}
		return 1
	}
}
