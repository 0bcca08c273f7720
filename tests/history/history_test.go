package history_test

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"osqueue/fsm"
	"osqueue/tests/history"
)

func lsn(term, index uint64) history.LSN {
	return history.LSN{LSN: fsm.LSN{Term: term, Index: index}}
}

// record records one item of each kind.
func record(r *history.Recorder) {
	op := r.Begin(history.Op{Client: "p1", Kind: history.Enqueue, Job: "a", Delay: history.Time(time.Second), Request: "k", Payload: `{"n":1}`})
	op.Outcome, op.LSN = history.OK, lsn(3, 17)
	r.Op(op)
	claim := r.Begin(history.Op{Client: "w1", Kind: history.Claim, Worker: "w1", Lease: history.Time(3 * time.Second)})
	claim.Outcome = history.Unknown
	claim.Jobs = []history.Held{{Job: "a", Token: 1<<32 + 1, Attempt: 1, Lease: history.Time(3 * time.Second)}}
	r.Op(claim)
	f := r.Fault("leader-killed", "n1")
	f.Hit("pid 7 ended by SIGKILL")
	f.Hit("term 3 became 4")
	f.End()
	r.Applied(history.Applied{
		Node: "n1", LSN: lsn(3, 17), Now: 5, Kind: history.Enqueue, Code: "ok",
		Jobs: []history.Item{{Job: "a", Status: "unclaimed"}},
	})
	r.Document(history.Document{Version: 1, LSN: lsn(3, 17), Epoch: 1, Node: "n1", Hash: "h"})
	r.State(history.State{Node: "n1", LSN: lsn(3, 17), Hash: "h"})
	r.Final(history.Final{Job: "a", Status: "completed"})
}

func TestWhatIsWrittenIsRead(t *testing.T) {
	var out bytes.Buffer
	r := history.NewRecorder(&out, history.Run{Seed: 1<<63 + 7, Nodes: 3, Lease: history.Time(3 * time.Second)})
	record(r)
	open := r.Fault("partition", "n2")
	open.Missed("no byte was withheld")
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	want := r.History()
	got, err := history.Read(bytes.NewReader(out.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("read %+v\nwant %+v", got, want)
	}
	if len(got.Faults) != 2 || !got.Faults[0].Hit || got.Faults[1].Hit {
		t.Errorf("faults %+v: the first has hit, the second was open and has not", got.Faults)
	}
	if p := got.Faults[0].Proof; p != "pid 7 ended by SIGKILL; term 3 became 4" {
		t.Errorf("proof %q", p)
	}
	var again bytes.Buffer
	if err := got.Write(&again); err != nil {
		t.Fatal(err)
	}
	if twice, err := history.Read(&again); err != nil || !reflect.DeepEqual(twice, want) {
		t.Errorf("written again it is another history: %v", err)
	}
}

func TestReadNamesTheLine(t *testing.T) {
	const run = `{"run":{"seed":1,"nodes":3,"start":"2026-11-21T10:00:00Z"}}` + "\n"
	const op = `{"op":{"id":1,"client":"c","kind":"read","call":1,"return":2,"outcome":"ok"}}` + "\n"
	for name, c := range map[string]struct{ in, want string }{
		"nothing":         {"", "line 1"},
		"no run":          {op, "line 1: the first line is not the run"},
		"two runs":        {run + run, "line 2: it is another run"},
		"an empty line":   {run + "\n" + op, "line 2: it is empty"},
		"no JSON":         {run + "{\n", "line 2"},
		"two members":     {run + `{"state":{"node":"n","lsn":"1-1","hash":"h"},"final":{"job":"a","status":"s"}}`, "line 2: it does not have exactly one"},
		"no member":       {run + `{}`, "line 2: it does not have exactly one"},
		"unknown member":  {run + `{"other":1}`, "line 2"},
		"unknown field":   {run + `{"state":{"node":"n","lsn":"1-1","hash":"h","more":1}}`, "line 2"},
		"bad LSN":         {run + `{"state":{"node":"n","lsn":"1","hash":"h"}}`, "not an LSN"},
		"an id twice":     {run + op + op, "line 3: operation id 1"},
		"backwards":       {run + strings.Replace(op, `"call":1`, `"call":3`, 1), "line 2: operation 1 returns at 2"},
		"no kind":         {run + strings.Replace(op, "read", "eat", 1), "of no kind"},
		"no outcome":      {run + strings.Replace(op, "ok", "well", 1), "no outcome"},
		"no client":       {run + strings.Replace(op, `"c"`, `""`, 1), "no client"},
		"a cut line":      {run + op[:40], "line 2"},
		"trailing":        {run + strings.TrimSpace(op) + "x\n", "line 2"},
		"fault backwards": {run + `{"fault":{"name":"f","begin":2,"end":1,"hit":true}}`, "line 2: fault"},
		"well":            {run + op, ""},
	} {
		_, err := history.Read(strings.NewReader(c.in))
		if c.want == "" && err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}

func TestRecorderOfManyClients(t *testing.T) {
	var out bytes.Buffer
	r := history.NewRecorder(&out, history.Run{})
	var wg sync.WaitGroup
	for c := range 8 {
		wg.Go(func() {
			for range 200 {
				op := r.Begin(history.Op{Client: fmt.Sprint("c", c), Kind: history.Stats})
				op.Outcome = history.OK
				r.Op(op)
			}
		})
	}
	wg.Wait()
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	h, err := history.Read(&out) // refuses ids that are there twice
	if err != nil || len(h.Ops) != 1600 {
		t.Fatalf("%d operations, %v", len(h.Ops), err)
	}
	last := make(map[string]history.Time)
	for _, op := range h.Ops {
		if op.Call < last[op.Client] {
			t.Fatalf("%s was called at %d before it returned at %d", op.Client, op.Call, last[op.Client])
		}
		last[op.Client] = op.Return
	}
}

// failing takes n writes.
type failing struct{ n int }

var errFull = errors.New("full")

func (f *failing) Write(p []byte) (int, error) {
	if f.n--; f.n < 0 {
		return 0, errFull
	}
	return len(p), nil
}

func TestRecorderSaysThatItCouldNotWrite(t *testing.T) {
	r := history.NewRecorder(&failing{}, history.Run{})
	record(r)
	if err := r.Close(); !errors.Is(err, errFull) {
		t.Errorf("got %v", err)
	}
	r = history.NewRecorder(&bytes.Buffer{}, history.Run{})
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	r.Op(history.Op{ID: 1})
	if err := r.Close(); !errors.Is(err, history.ErrClosed) {
		t.Errorf("noted after the end: %v", err)
	}
}

func FuzzRead(f *testing.F) {
	var out bytes.Buffer
	r := history.NewRecorder(&out, history.Run{Seed: 1})
	record(r)
	if err := r.Close(); err != nil {
		f.Fatal(err)
	}
	f.Add(out.Bytes())
	f.Add([]byte(`{"run":{}}` + "\n" + `{"op":{"id":1}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		h, err := history.Read(bytes.NewReader(data))
		if err != nil {
			if !strings.HasPrefix(err.Error(), "line ") {
				t.Fatalf("the error names no line: %v", err)
			}
			return
		}
		var out bytes.Buffer
		if err := h.Write(&out); err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
		again, err := history.Read(&out)
		if err != nil || len(again.Ops) != len(h.Ops) || len(again.Applied) != len(h.Applied) {
			t.Fatalf("what was written cannot be read: %v", err)
		}
	})
}
