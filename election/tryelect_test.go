package election_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"osqueue/election"
	"osqueue/internal/storagetest/fault"
	"osqueue/storage"
)

// recorded is one case of the original's election.
type recorded struct {
	Name    string
	Request struct {
		Op, Address    string
		Now, TimeoutMs int64
		Document       json.RawMessage
		DocumentText   *string
		Fault          string
	}
	Response struct {
		Result   json.RawMessage
		Written  bool
		Document json.RawMessage
	}
}

func recordedCases(t *testing.T) []recorded {
	t.Helper()
	data, err := os.ReadFile("testdata/broker_election.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []recorded
	if err := json.Unmarshal(data, &cases); err != nil {
		t.Fatal(err)
	}
	if len(cases) < 30 {
		t.Fatalf("only %d recorded cases", len(cases))
	}
	return cases
}

func (c *recorded) text() (string, bool) {
	switch {
	case c.Request.DocumentText != nil:
		return *c.Request.DocumentText, true
	case c.Request.Document == nil || string(c.Request.Document) == "null":
		return "", false
	default:
		return string(c.Request.Document), true
	}
}

// faultRules are the recorded faults in terms of the bucket.
var faultRules = map[string]fault.Rule{
	"createConflict": {Kind: fault.Reject, Ops: []storage.Op{storage.OpPutIfAbsent}},
	"writeConflict":  {Kind: fault.Reject, Ops: []storage.Op{storage.OpPutIfMatch}},
	"readError":      {Kind: fault.LoseRequest, Ops: []storage.Op{storage.OpGet}},
	"writeError":     {Kind: fault.Throttle, Ops: []storage.Op{storage.OpPutIfMatch}},
}

// TestRecordedElections plays the original's cases: outcome, whether something
// was written, and the document afterwards.
func TestRecordedElections(t *testing.T) {
	for _, c := range recordedCases(t) {
		t.Run(c.Name, func(t *testing.T) {
			e := newEnv(t)
			text, there := c.text()
			if there {
				e.seed(text)
			}
			if c.Request.Fault != "" {
				rule, ok := faultRules[c.Request.Fault]
				if !ok {
					t.Fatalf("unknown fault %q", c.Request.Fault)
				}
				e.Inject(rule)
			}
			before := e.stored()
			got := play(t, e, &c)
			if !reflect.DeepEqual(got, c.want(t)) {
				t.Errorf("result %v, want %v", got, c.want(t))
			}
			after := e.stored()
			if written := after.Version != before.Version; written != c.Response.Written {
				t.Errorf("written: %v, want %v", written, c.Response.Written)
			}
			if c.Response.Written && !sameJSON(t, after.Data, c.Response.Document) {
				t.Errorf("document %s\nwant %s", after.Data, c.Response.Document)
			}
		})
	}
}

// want is the recorded result; of errors only that there is one.
func (c *recorded) want(t *testing.T) map[string]any {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal(c.Response.Result, &m); err != nil {
		t.Fatal(err)
	}
	if m["error"] != nil {
		return map[string]any{"error": true}
	}
	return m
}

func play(t *testing.T, e *env, c *recorded) map[string]any {
	t.Helper()
	q := c.Request
	if q.Op == "checkLeadership" {
		leader, err := election.CheckLeadership(short(t), e, key, q.Address)
		if err != nil {
			return map[string]any{"error": true}
		}
		return map[string]any{"leader": leader}
	}
	r, err := election.TryElect(short(t), e, key, q.Address, q.Now, q.TimeoutMs)
	switch {
	case err != nil:
		return map[string]any{"error": true}
	case r.Status == election.OtherLeader:
		return map[string]any{"status": string(r.Status), "leader": r.Leader}
	default:
		return map[string]any{"status": string(r.Status)}
	}
}

func sameJSON(t *testing.T, a, b []byte) bool {
	t.Helper()
	var x, y any
	if err := errors.Join(json.Unmarshal(a, &x), json.Unmarshal(b, &y)); err != nil {
		t.Fatal(err)
	}
	return reflect.DeepEqual(x, y)
}

// TestElectionKeepsText changes two values and not one other byte.
func TestElectionKeepsText(t *testing.T) {
	for _, text := range []string{
		"\t{ \"x\" : \"\\ud800\xff\", \"broker\" : \"b\\u0041\" , \"a\":1.0e0, \"a\":2, \"brokerHeartbeat\" :\n5, \"jobs\":[ ] } \n",
		"{\"brokerHeartbeat\":5,\"jobs\":[{\"payload\":{\"broker\":1,\"broker\":2}}],\"broker\":null}",
	} {
		e := newEnv(t)
		e.seed(text)
		r, err := election.TryElect(t.Context(), e, key, "n:1", start, timeout)
		if err != nil || r.Status != election.Elected {
			t.Fatalf("%+v, %v", r, err)
		}
		want := strings.NewReplacer(`"b\u0041"`, `"n:1"`, "null", `"n:1"`, "\n5", "\n1700000000000", `t":5`, `t":1700000000000`).Replace(text)
		if got := e.stored().Data; string(got) != want {
			t.Errorf("document\n%q\nwant\n%q", got, want)
		}
	}
}

func TestElectionRefusesDamage(t *testing.T) {
	for _, text := range []string{
		`[]`, `"x"`, `{"broker":1}`, `{"broker":"a","broker":"b"}`, `{"brokerHeartbeat":"x"}`, `{"brokerHeartbeat":{}}`,
		`{} {}`, `{"jobs":[}`, `{"brokerHeartbeat":1,"brokerHeartbeat":1}`, `{"a":1`, `nul`, "\x00",
	} {
		e := newEnv(t)
		e.seed(text)
		if r, err := election.TryElect(t.Context(), e, key, "n:1", start, timeout); !errors.Is(err, election.ErrUnreadable) {
			t.Errorf("TryElect on %s: %+v, %v", text, r, err)
		}
		if ok, err := election.CheckLeadership(t.Context(), e, key, "n:1"); ok || !errors.Is(err, election.ErrUnreadable) {
			t.Errorf("CheckLeadership on %s: %v, %v", text, ok, err)
		}
		if string(e.stored().Data) != text {
			t.Errorf("%s was written over", text)
		}
	}
}

// TestElectionRace lets candidates race for the same document, with answers
// lost: exactly one is elected.
func TestElectionRace(t *testing.T) {
	for _, text := range []string{"", `{"broker":"old:1","brokerHeartbeat":5,"jobs":[]}`} {
		e := newEnv(t)
		if text != "" {
			e.seed(text)
		}
		e.Inject(fault.Rule{Kind: fault.LoseAnswer, Probability: 0.5, Times: 6})
		e.Inject(fault.Rule{Kind: fault.LoseRequest, Probability: 0.5, Times: 6})
		var mu sync.Mutex
		var winners []string
		var group sync.WaitGroup
		for i := range 8 {
			group.Go(func() {
				address := string(rune('a'+i)) + ":1"
				r, err := election.TryElect(t.Context(), e, key, address, start, timeout)
				mu.Lock()
				defer mu.Unlock()
				if err != nil && !errors.Is(err, fault.ErrInjected) {
					t.Errorf("%s: %v", address, err)
				}
				if r.Status == election.Elected {
					winners = append(winners, address)
				}
			})
		}
		group.Wait()
		if len(winners) != 1 || !bytes.Contains(e.stored().Data, []byte(winners[0])) {
			t.Errorf("winners %v of %s", winners, e.stored().Data)
		}
	}
}

// TestElectionSettles loses requests and answers of the one write.
func TestElectionSettles(t *testing.T) {
	const old = `{"broker":"old:1","brokerHeartbeat":5,"jobs":[]}`
	cases := []struct {
		name string
		rule fault.Rule
		want election.Status
		err  error
	}{
		{"answer lost", fault.Rule{Kind: fault.LoseAnswer, Times: 1}, election.Elected, nil},
		{"request lost", fault.Rule{Kind: fault.LoseRequest, Ops: []storage.Op{storage.OpPutIfMatch}, Times: 2}, election.Elected, nil},
		{"every request lost", fault.Rule{Kind: fault.LoseRequest, Ops: []storage.Op{storage.OpPutIfMatch}}, "", election.ErrUnknown},
		{"delivered late", fault.Rule{Kind: fault.DeliverLate, Times: 1, Delay: 1}, election.Elected, nil},
		{"refused after a lost request", fault.Rule{Kind: fault.Reject, Skip: 0, Times: 1}, election.LostRace, nil},
		{"throttled", fault.Rule{Kind: fault.Throttle, Ops: []storage.Op{storage.OpPutIfMatch}}, "", storage.ErrThrottled},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newEnv(t)
				e.seed(old)
				i := e.Inject(c.rule)
				r, err := election.TryElect(short(t), e, key, "n:1", start, timeout)
				if r.Status != c.want || !errors.Is(err, c.err) || i.Hits() == 0 {
					t.Fatalf("%+v, %v after %d hits; want %q, %v", r, err, i.Hits(), c.want, c.err)
				}
			})
		})
	}
}

// TestElectionLosesLate loses the answer, and another wins before the look.
func TestElectionLosesLate(t *testing.T) {
	e := newEnv(t)
	e.seed(`{"broker":"old:1","brokerHeartbeat":5,"jobs":[]}`)
	e.Inject(fault.Rule{Kind: fault.LoseRequest, Ops: []storage.Op{storage.OpPutIfMatch}, Times: 1})
	h := &hooked{Bucket: e}
	h.beforePut = func() { h.beforeGet = func() { e.overwrite([]byte(`{"broker":"other:1","brokerHeartbeat":6}`)) } }
	if r, err := election.TryElect(t.Context(), h, key, "n:1", start, timeout); err != nil || r.Status != election.LostRace {
		t.Fatalf("%+v, %v", r, err)
	}
	e.Inject(fault.Rule{Kind: fault.LoseRequest, Ops: []storage.Op{storage.OpPutIfMatch}, Times: 1})
	h.beforePut = func() { h.beforeGet = func() { e.record.Delete(t.Context(), key) } }
	if r, err := election.TryElect(t.Context(), h, key, "n:1", start, timeout); err != nil || r.Status != election.LostRace {
		t.Fatalf("removed: %+v, %v", r, err)
	}
}

func FuzzRegistration(f *testing.F) {
	f.Add([]byte(`{"broker":"a","brokerHeartbeat":5,"jobs":[]}`))
	f.Add([]byte(`{"brokerHeartbeat":"5"}`))
	f.Add([]byte(` {} `))
	f.Fuzz(func(t *testing.T, data []byte) {
		e := newEnv(t)
		e.seed(string(data))
		r, err := election.TryElect(t.Context(), e, key, "n:1", start, timeout)
		if err != nil || r.Status != election.Elected {
			if string(e.stored().Data) != string(data) {
				t.Fatalf("%+v, %v, and the document is now %q", r, err, e.stored().Data)
			}
			return
		}
		again, err := election.TryElect(t.Context(), e, key, "n:1", start+1, timeout)
		if err != nil || again.Status != election.AlreadyLeader {
			t.Fatalf("then %+v, %v on %q", again, err, e.stored().Data)
		}
	})
}
