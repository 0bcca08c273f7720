package document_test

import (
	"bytes"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"osqueue/fsm"
	"osqueue/storage/document"
)

// TestRoundTrip checks that every state that the machine can reach comes back from the
// document exactly, scalars included.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		reached := randomMachine(t)
		if rapid.Bool().Draw(t, "adopted") {
			reached.Transplant(textGen.Draw(t, "adopter"), textGen.Draw(t, "version"), 1, reached.Meta().LSN.Term+1)
		}
		v := reached.View()
		h := document.Header{
			Lineage: textGen.Draw(t, "lineage"), Cluster: textGen.Draw(t, "cluster"),
			Epoch: rapid.Uint64().Draw(t, "epoch"), Node: textGen.Draw(t, "node"),
			Write: textGen.Draw(t, "write"), Writes: rapid.SliceOfN(textGen, 0, 3).Draw(t, "writes"),
		}
		broker := textGen.Draw(t, "broker")
		data := document.Encode(document.Inline(v), h, broker, rapid.Int64().Draw(t, "heartbeat"))
		doc, m := machine(t, data)
		if m.View().Hash() != v.Hash() {
			t.Fatalf("the state changed on its way through\n%s\nmeta %+v\n was %+v", data, m.Meta(), v.Meta())
		}
		if doc.Overtaken || doc.Header.LSN() != v.LSN() || doc.Header.Epoch != h.Epoch || doc.Header.Write != h.Write ||
			strings.Join(doc.Header.Writes, "|") != strings.Join(h.Writes, "|") || doc.BrokerAddress() != broker {
			t.Fatalf("header %+v (overtaken %v) of\n%s", doc.Header, doc.Overtaken, data)
		}
		if again := document.Encode(document.Inline(m.View()), *doc.Header, broker, doc.BrokerHeartbeat); !bytes.Equal(again, data) {
			t.Fatalf("encoded again it is\n%s\nnot\n%s", again, data)
		}
	})
}

// TestMachineLeavesDocument builds two machines and changes one of them.
func TestMachineLeavesDocument(t *testing.T) {
	doc, first := machine(t, document.Encode(document.Inline(rich(t).View()), header, "a:1", 5))
	want := first.View().Hash()
	apply(t, first, 3, 1_806_000_000_000, claim("w9", "r9", 9))
	var group sync.WaitGroup
	for range 2 {
		group.Go(func() {
			if again, err := doc.Machine(); err != nil || again.View().Hash() != want {
				t.Errorf("a machine changed the document that it was built from (%v)", err)
			}
		})
	}
	group.Wait()
}

// TestLargeIntegers writes integers that JavaScript cannot represent as text.
func TestLargeIntegers(t *testing.T) {
	m := fsm.New()
	op := registerBroker("n", "a:1", 1<<22)
	op.GetRegisterBroker().Settings.LeaseMs = -1 << 60
	op.GetRegisterBroker().Settings.RetainCompletedMs = 1<<53 - 1
	op.GetRegisterBroker().Settings.WorkerTimeoutMs = 1 << 53
	apply(t, m, 1, 5, op)
	data := document.Encode(document.Inline(m.View()), header, "a:1", 5)
	for _, want := range []string{
		`"lastToken":"18014398509481984"`, `"leaseMs":"-1152921504606846976"`, `"retainCompletedMs":9007199254740991,`,
		`"workerTimeoutMs":"9007199254740992"`,
	} {
		if !strings.Contains(string(data), want) {
			t.Errorf("no %s in %s", want, data)
		}
	}
	if _, back := machine(t, data); back.View().Hash() != m.View().Hash() {
		t.Error("the state changed on its way")
	}
}

func TestEncodeLeavesHeader(t *testing.T) {
	m := fsm.New()
	data, large := document.AppendTo([]byte("x"), document.Inline(m.View()), document.Header{Format: 9, Term: 9, Heartbeat: 9}, "", 5)
	got := string(data)
	if large {
		t.Error("a state without an archive counts as large")
	}
	for _, want := range []string{
		`x{"broker":null,"brokerHeartbeat":5,"jobs":[],"completedTotal":0,`, `"format":1,`, `"term":0,`, `"heartbeat":5`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in %s", want, got)
		}
	}
}

// TestDeepPayload nests payloads around the limit for embedding; beyond it they still come
// back, from a document that the reader accepts.
func TestDeepPayload(t *testing.T) {
	for _, depth := range []int{1, 100, 8999, 9000, 9001, 10_000, 200_000} {
		payload := strings.Repeat(`[{"a":`, depth/2) + strings.Repeat("[", depth%2) + "1" +
			strings.Repeat("]", depth%2) + strings.Repeat("}]", depth/2)
		m := fsm.New()
		apply(t, m, 1, 1, enqueue(newJob("j", payload), newJob("wide", "["+strings.Repeat("[],", 20_000)+"{}]")))
		data := document.Encode(document.Inline(m.View()), header, "a:1", 5)
		_, back := machine(t, data)
		if got := back.Job("j").Payload(); string(got) != payload {
			t.Fatalf("depth %d: %d bytes came back of %d", depth, len(got), len(payload))
		}
		if coded := strings.Count(string(data), `"payloadBase64"`); coded != btoi(depth > 9000) {
			t.Errorf("depth %d: %d payloads as base64", depth, coded)
		}
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
