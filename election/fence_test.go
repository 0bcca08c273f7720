package election_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"osqueue/election"
	"osqueue/fsm"
	"osqueue/internal/storagetest/fault"
	"osqueue/storage"
	"osqueue/storage/document"
)

// TestLeaderTerm checks one leader term from the first document on: the content of the
// document, and the values that the successor takes over.
func TestLeaderTerm(t *testing.T) {
	e := newEnv(t)
	n := newNode("n1", "A")
	n.enqueue("a")
	f := e.acquire(n)
	h := e.doc().Header
	if f.Epoch() != 1 || f.Lineage() == "" || h.Epoch != 1 || h.Lineage != f.Lineage() || h.Cluster != "A" || h.Node != "n1" ||
		h.Address != "n1:8080" || h.LSN() != f.Flushed() || f.Flushed().Index != 1 || f.Size() != len(e.stored().Data) ||
		f.Version() != e.stored().Version {
		t.Fatalf("fence %+v, header %+v", f, h)
	}
	for i := range 20 {
		e.write(f, n.enqueue(fmt.Sprint("j", i)))
	}
	e.write(f, n.View()) // a heartbeat only
	if doc := e.doc(); doc.Header.Counts.Sum() != 21 || doc.BrokerAddress() != "n1:8080" || doc.BrokerHeartbeat != start {
		t.Fatalf("document of %d jobs by %q at %d", doc.Header.Counts.Sum(), doc.BrokerAddress(), doc.BrokerHeartbeat)
	}

	second := newNode("n2", "A")
	second.Machine, second.term = n.Machine, 2
	g := e.acquire(second)
	if g.Epoch() != 2 || g.Lineage() != f.Lineage() || len(e.doc().Header.Writes) != 16 {
		t.Fatalf("second fence %+v, header %+v", g, e.doc().Header)
	}
	e.checkHistory()
}

// The document says where the part of each other cluster ends, until that one has the
// document again.
func TestHandovers(t *testing.T) {
	e := newEnv(t)
	n := newNode("n1", "A")
	e.write(e.acquire(n), n.enqueue("a"))
	want := func(clusters ...string) {
		t.Helper()
		var got []string
		for _, o := range e.doc().Header.Handovers {
			got = append(got, o.Cluster)
		}
		if fmt.Sprint(got) != fmt.Sprint(clusters) {
			t.Errorf("handovers of %v, want %v", got, clusters)
		}
	}
	want()
	takeOver := func(node, cluster string) {
		t.Helper()
		next := newNode(node, cluster)
		next.Machine, next.term = n.Machine, n.term
		f := e.acquire(next)
		e.write(f, next.enqueue("of "+node))
	}
	takeOver("n2", "A")
	want()
	before := e.doc()
	takeOver("n3", "B")
	want("A")
	o, ok := e.doc().Header.Handover("A")
	wanted := document.Handover{
		Cluster: "A", Epoch: before.Header.Epoch, Term: before.Header.Term, Index: before.Header.Index,
		LastSeq: before.Header.LastSeq, Token: before.Header.LastToken, Now: start,
	}
	if !ok || o != wanted {
		t.Errorf("handover %+v, want %+v", o, wanted)
	}
	takeOver("n4", "B")
	want("A")
	takeOver("n5", "C")
	want("A", "B")
	takeOver("n6", "A")
	want("B", "C")
	for i := range 2 * document.HandoversMax {
		takeOver("n7", fmt.Sprint(i))
	}
	if got := len(e.doc().Header.Handovers); got != document.HandoversMax {
		t.Errorf("%d handovers", got)
	}
}

// TestRemovedBeforeAcquire keeps epoch and lineage of the machine when the
// document is gone.
func TestRemovedBeforeAcquire(t *testing.T) {
	e := newEnv(t)
	n := newNode("n1", "A")
	f := e.acquire(n)
	e.Delete(t.Context(), key)
	g := e.acquire(n)
	if g.Epoch() != 2 || g.Lineage() != f.Lineage() {
		t.Fatalf("epoch %d of lineage %s", g.Epoch(), g.Lineage())
	}
}

func TestAcquireRefuses(t *testing.T) {
	e := newEnv(t)
	n := newNode("n1", "A")
	n.enqueue("a")
	e.write(e.acquire(n), n.enqueue("b"))
	before := e.stored().Version

	older := newNode("n2", "A")
	older.enqueue("a")
	foreign := newNode("n3", "B")
	foreign.register(e.acquireElsewhere(foreign))
	for range 9 {
		foreign.enqueue(fmt.Sprint(foreign.Machine.LSN()))
	}
	nameless := newNode("", "A")
	for _, c := range []struct {
		who  *node
		want string
	}{{older, "older than the document"}, {foreign, "of lineage"}, {nameless, "no name"}} {
		_, err := election.Acquire(t.Context(), e, key, e.read(), c.who.candidate(), e.content(c.who.View()), start)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.who.Node, err, c.want)
		}
	}
	last := n.candidate()
	last.Epoch = math.MaxUint64 // the next one would be 0, which fences nobody off
	_, err := election.Acquire(t.Context(), e, key, e.read(), last, e.content(n.View()), start)
	if err == nil || !strings.Contains(err.Error(), "epoch 18446744073709551615") {
		t.Errorf("%v", err)
	}
	if e.stored().Version != before {
		t.Error("a refused candidate wrote")
	}
}

// acquireElsewhere gives a node a lineage of its own.
func (e *env) acquireElsewhere(n *node) *election.Fence {
	e.Helper()
	return newEnv(e.TB).acquire(n)
}

// TestFenced lets a deposed leader write.
func TestFenced(t *testing.T) {
	e := newEnv(t)
	n := newNode("n1", "A")
	f := e.acquire(n)
	e.write(f, n.enqueue("a"))

	second := newNode("n2", "A")
	second.Machine, second.term = copyOf(t, n.Machine), 2
	e.acquire(second)
	before := e.stored()

	for range 2 { // and again: it is final
		err := f.Write(t.Context(), e.content(n.enqueue("b")), start)
		var fenced *election.FencedError
		if !errors.As(err, &fenced) || *fenced != (election.FencedError{Epoch: 2, Node: "n2", Cluster: "A", Address: "n2:8080"}) {
			t.Fatalf("write of the deposed leader: %v", err)
		}
	}
	if !bytes.Equal(e.stored().Data, before.Data) {
		t.Fatal("the deposed leader wrote")
	}
	e.checkHistory()
}

// copyOf is a machine with the same state.
func copyOf(t testing.TB, m *fsm.Machine) *fsm.Machine {
	t.Helper()
	var buf bytes.Buffer
	if err := m.View().Encode(&buf); err != nil {
		t.Fatal(err)
	}
	c, err := fsm.Decode(&buf)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestFencedByLog refuses a state in which a later broker is registered, before
// anything is sent.
func TestFencedByLog(t *testing.T) {
	e := newEnv(t)
	n := newNode("n1", "A")
	f := e.acquire(n)
	later := newNode("n2", "A")
	later.Machine = n.Machine
	h := e.acquire(later) // epoch 2, registered in the same machine
	requests := e.Inject(fault.Rule{Kind: fault.LoseRequest})
	err := f.Write(short(t), e.content(n.View()), start)
	var fenced *election.FencedError
	if !errors.As(err, &fenced) || fenced.Epoch != h.Epoch() || fenced.Node != "n2" || requests.Hits() != 0 {
		t.Fatalf("write: %v after %d requests", err, requests.Hits())
	}
}

// TestFencedBySelf keeps an earlier fence of the same node from writing.
func TestFencedBySelf(t *testing.T) {
	e := newEnv(t)
	n := newNode("n1", "A")
	f := e.acquire(n)
	v := n.View()
	e.acquire(n)
	var fenced *election.FencedError
	if err := f.Write(t.Context(), e.content(v), start); !errors.As(err, &fenced) || fenced.Epoch != 2 || fenced.Node != "n1" {
		t.Fatalf("write: %v", err)
	}
}

// TestFencedByOriginal lets a legacy broker register in the document. When it is gone, the cluster
// continues from its own state, which is newer than the document's.
func TestFencedByOriginal(t *testing.T) {
	for _, bare := range []bool{false, true} {
		e := newEnv(t)
		e.bare = bare
		n := newNode("n1", "A")
		f := e.acquire(n)
		e.write(f, n.enqueue("a"))
		e.overwrite(registered(t, e.stored().Data, "o:1", start+timeout+1))
		var fenced *election.FencedError
		err := f.Write(t.Context(), e.content(n.enqueue("b")), start)
		if !errors.As(err, &fenced) || *fenced != (election.FencedError{Address: "o:1"}) {
			t.Fatalf("write: %v", err)
		}
		o := e.read()
		if d := election.Decide(o, n.candidate(), heard(o.Doc, start+timeout+2)); d.Action != election.Wait || !o.Doc.Overtaken {
			t.Fatalf("%+v", d)
		}
		later := int64(start + 3*timeout)
		if d := election.Decide(o, n.candidate(), heard(o.Doc, later)); d.Action != election.TakeOver {
			t.Fatalf("%+v", d)
		}
		g, err := election.Acquire(t.Context(), e, key, o, n.candidate(), e.content(n.View()), later)
		if err != nil || g.Epoch() != 2 || g.Lineage() != f.Lineage() {
			t.Fatalf("%+v, %v", g, err)
		}
		if got := e.jobs(); got != "a:unclaimed b:unclaimed " || e.doc().Overtaken {
			t.Fatalf("jobs %s, overtaken %v", got, e.doc().Overtaken)
		}
	}
}

// adopt adopts a document as a cluster does: LSNs keep growing, above those of the
// document and of the documents adopted before.
func adopt(t testing.TB, n *node, v *fsm.View) *fsm.Machine {
	t.Helper()
	var buf bytes.Buffer
	if err := v.Encode(&buf); err != nil {
		t.Fatal(err)
	}
	m, err := fsm.Decode(&buf)
	if err != nil {
		t.Fatal(err)
	}
	m.Transplant(n.Cluster, "", n.term, max(v.LSN().Term, n.Machine.LSN().Term)+1)
	return m
}

// TestOtherLineage refuses a state that was replaced by another lineage's.
func TestOtherLineage(t *testing.T) {
	e := newEnv(t)
	n := newNode("n1", "A")
	f := e.acquire(n)
	other := newNode("n1", "A")
	e.acquireElsewhere(other)
	for range 5 {
		other.enqueue(fmt.Sprint(other.Machine.LSN()))
	}
	if err := f.Write(t.Context(), e.content(other.View()), start); err == nil || !strings.Contains(err.Error(), "of lineage") {
		t.Fatalf("write: %v", err)
	}
}

// TestExternalEdit edits the document in every way that is no takeover.
func TestExternalEdit(t *testing.T) {
	replace := func(old, with string) func(string) string {
		return func(s string) string { return strings.Replace(s, old, with, 1) }
	}
	cases := map[string]func(string) string{
		"a job added":          replace(`"jobs":[`, `"jobs":[{"id":"new","status":"unclaimed","createdAt":1,"attempts":0},`),
		"white space":          func(s string) string { return s + "\n" },
		"broker set to null":   replace(`"broker":"n1:8080"`, `"broker":null`),
		"the header cut out":   func(s string) string { return `{"broker":"n1:8080","brokerHeartbeat":1,"jobs":[]}` },
		"heartbeat set":        replace(`"brokerHeartbeat":1700000000000`, `"brokerHeartbeat":0`),
		"write id made up":     replace(`"write":"`, `"write":"X`),
		"completedTotal reset": replace(`"completedTotal":0`, `"completedTotal":7`),
	}
	for name, edit := range cases {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t)
			n := newNode("n1", "A")
			f := e.acquire(n)
			e.write(f, n.enqueue("a"))
			flushed := f.Flushed()
			edited := edit(string(e.stored().Data))
			if edited == string(e.stored().Data) {
				t.Fatal("the edit changed nothing")
			}
			e.overwrite([]byte(edited))

			var found *election.ExternalEditError
			err := f.Write(t.Context(), e.content(n.enqueue("b")), start)
			if !errors.As(err, &found) || string(found.Raw) != edited || found.Doc == nil || found.Version != e.stored().Version {
				t.Fatalf("write over an edit: %v", err)
			}
			if string(e.stored().Data) != edited || f.Flushed() != flushed {
				t.Fatal("the edit was written over, or the refused state counts as flushed")
			}
			f.Rebase(found.Observed)
			e.write(f, n.View())
			if got := e.jobs(); got != "a:unclaimed b:unclaimed " {
				t.Fatalf("jobs %s", got)
			}
		})
	}
}

// TestRemoved removes the document under the fence.
func TestRemoved(t *testing.T) {
	e := newEnv(t)
	n := newNode("n1", "A")
	f := e.acquire(n)
	e.Delete(t.Context(), key)
	var found *election.ExternalEditError
	if err := f.Write(t.Context(), e.content(n.View()), start); !errors.As(err, &found) || found.Doc != nil {
		t.Fatalf("write: %v", err)
	}
	f.Rebase(found.Observed)
	e.write(f, n.View())

	// While it was away, another writer made a new one.
	e.Delete(t.Context(), key)
	errors.As(f.Write(t.Context(), e.content(n.View()), start), &found)
	f.Rebase(found.Observed)
	other := newNode("x", "B")
	e.acquire(other)
	var fenced *election.FencedError
	if err := f.Write(t.Context(), e.content(n.View()), start); !errors.As(err, &fenced) || fenced.Node != "x" {
		t.Fatalf("write: %v", err)
	}
}

// TestDamaged never writes over a document that cannot be read.
func TestDamaged(t *testing.T) {
	e := newEnv(t)
	n := newNode("n1", "A")
	f := e.acquire(n)
	good := e.stored().Data
	e.overwrite(good[:len(good)/2])
	for range 2 {
		if err := f.Write(t.Context(), e.content(n.View()), start); !errors.Is(err, election.ErrUnreadable) {
			t.Fatalf("write: %v", err)
		}
	}
	if got := e.stored().Data; !bytes.Equal(got, good[:len(good)/2]) {
		t.Fatalf("written over: %s", got)
	}
	e.overwrite(good) // repaired: these are our own bytes
	e.write(f, n.enqueue("a"))
}

// TestUndoneEdit takes an edit back after it was adopted.
func TestUndoneEdit(t *testing.T) {
	e := newEnv(t)
	n := newNode("n1", "A")
	f := e.acquire(n)
	good := e.stored().Data
	e.overwrite(append(good, '\n'))
	var edit *election.ExternalEditError
	if err := f.Write(t.Context(), e.content(n.View()), start); !errors.As(err, &edit) {
		t.Fatalf("write: %v", err)
	}
	f.Rebase(edit.Observed)
	e.overwrite(good)
	e.write(f, n.View())
}

// TestCopied writes the fence's own version again, under another token.
func TestCopied(t *testing.T) {
	e := newEnv(t)
	n := newNode("n1", "A")
	f := e.acquire(n)
	e.write(f, n.enqueue("a"))
	e.overwrite(e.stored().Data)
	e.write(f, n.enqueue("b"))
}

// TestSameStateOtherBytes makes sure that a store that names versions by their
// content cannot bring an old name back.
func TestSameStateOtherBytes(t *testing.T) {
	e := newEnvOn(t, newHashed())
	n := newNode("n1", "A")
	f := e.acquire(n)
	seen := map[storage.Version]bool{}
	for range 50 {
		e.write(f, n.View())
		if seen[f.Version()] {
			t.Fatalf("version %s came back", f.Version())
		}
		seen[f.Version()] = true
	}
	e.checkHistory()
}
