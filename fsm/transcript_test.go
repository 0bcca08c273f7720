package fsm_test

import (
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
//	enqueue ID… [JOB] [newbatch=B [callback=ID [calltype=T] [callkey=K] [on=ended|completed]]]
//	claim worker=W [max=N] [types=(T,…)] [request=R] [lease=MS]
//	heartbeat worker=W ID… [percent=N] [message=TEXT]
//	complete worker=W ID [result=TEXT] [log=TEXT]
//	fail worker=W ID [permanent] [delay=MS] [error=TEXT]      release worker=W ID
//	force ID [result=TEXT]
//	register worker=W           dead worker=W
//	cancel|retry|delete ID…     or, by filter: cancel|retry|delete all [status=(S,…)] [type=T]
//	    [tag=T] [group=G] [batch=B] [worker=W] [from=MS] [before=MS] [limit=N] [behind=(S,SEQ)]
//	setqueue T [remove] [paused[=no]] [running=N] [pergroup=N] [rate=N] [burst=N] [lease=MS]
//	    [timeout=MS] [attempts=N] [backoff=…] [retain=MS] [keep=N] [jobs=N] [bytes=N] [payload=N]
//	cron put NAME [next=MS] [spec=S] [zone=Z] [overlap=skip] [missed=one] [paused] [JOB]
//	cron pause|resume|delete NAME [next=MS] [spec=S] [zone=Z]
//	cron fire NAME due=MS at=MS [missed=N] [next=MS] [spec=S] [zone=Z] job=ID
//	cron trigger NAME job=ID
//	broker node=N epoch=E [attempts=N] [lease=MS] [timeout=MS] [retain=MS] [keep=N]
//	    [requestms=MS] [requests=N] [jobs=N] [bytes=N] [payload=N]
//	announce away|back|refused|accepted text=TEXT [times=N]
//	tick
//	entry (several commands, one a line, in one entry)
//	group (several commands, one a line, as one mutation)
//
// JOB is [type=T] [priority=N] [at=MS] [attempts=N] [lease=MS] [payload=TEXT]
// [backoff=(KIND,BASE[,CAP[,JITTER]])] [timeout=MS] [group=G] [tags=(T,…)]
// [unique=(KEY,SCOPE[,PERIOD])] [after=(ID,…)] [failure=block|cancel|run] [batch=B].
// An enqueue may have more jobs, each with a JOB of its own, one a line.
//
// Every command takes key=K and print=F, the request key and its fingerprint;
// the whole entry dice=N, and t=MS, the leader's clock, or t=+MS; by default it
// stands still. Reports carry the job's last token unless token= says another
// (epoch.counter, or none).
//
// These print the state: jobs, history ID, workers, claims, queues, types,
// turns, crons, batches, holds, requests, totals; wakeups what the last entry
// woke.
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
	if out, ok := p.print(t, d); ok {
		return out
	}
	b := &fsmpb.Batch{NowMs: p.clock(t, d), Random: randomOf(t, d), Mutations: p.mutations(t, d)}
	return p.apply(t, b)
}

// apply runs the entry on the machine and on a restored copy of it.
func (p *player) apply(t *testing.T, b *fsmpb.Batch) string {
	restoredCopy := copyOf(t, p.m)
	data := entry(t, b)
	out := outcome(p.m, p.m.Apply(p.m.Meta().LSN.Index+1, 1, decode(t, data)))
	again := outcome(restoredCopy, restoredCopy.Apply(restoredCopy.Meta().LSN.Index+1, 1, decode(t, data)))
	if again != out || restoredCopy.View().Hash() != p.m.View().Hash() || wakeups(restoredCopy) != wakeups(p.m) {
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

// command is one line of a transcript.
type command struct {
	name  string
	ids   []string // arguments without a value
	named map[string][]string
}

// input are the commands below a command, one a line.
func input(t *testing.T, d *datadriven.TestData) []command {
	var list []command
	for line := range strings.Lines(d.Input) {
		name, args, err := datadriven.ParseLine(line)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, parsed(name, args))
	}
	return list
}

func parsed(name string, args []datadriven.CmdArg) command {
	c := command{name: name, named: make(map[string][]string)}
	for _, a := range args {
		if len(a.Vals) == 0 {
			c.ids = append(c.ids, a.Key)
			continue
		}
		c.named[a.Key] = a.Vals
	}
	return c
}

func (c command) text(key string) string { return strings.Join(c.named[key], ",") }

// id is argument number i, "" if there are not so many.
func (c command) id(i int) string {
	if i < len(c.ids) {
		return c.ids[i]
	}
	return ""
}

func (c command) number(t *testing.T, key string, otherwise int64) int64 {
	if v := c.named[key]; len(v) == 1 {
		return number(t, v[0])
	}
	return otherwise
}

// optional is nil where the command does not name the number.
func (c command) optional(t *testing.T, key string) *int64 {
	if len(c.named[key]) == 0 {
		return nil
	}
	n := c.number(t, key, 0)
	return &n
}

// optionalText is nil where the command does not name the text.
func (c command) optionalText(key string) *string {
	if len(c.named[key]) == 0 {
		return nil
	}
	text := c.text(key)
	return &text
}

func number(t *testing.T, text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
