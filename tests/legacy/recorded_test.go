package legacy

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"osqueue/internal/storagetest/fault"
	"osqueue/storage"
	"osqueue/storage/mem"
	"osqueue/tests/cluster"
	"osqueue/tests/replay/player"
	"osqueue/tests/replay/transcript"
)

// recordings is the directory of the recordings of the real broker.
const recordings = "../../compat/osqueue/testdata/transcripts"

// TestRecordedExchanges checks that the routes of this broker answer as recorded.
func TestRecordedExchanges(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"rest_submit", "rest_claim", "rest_heartbeat_complete", "rest_reads", "rest_errors", "rest_expiry", "queue_takeover", "client_rest",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, err := transcript.LoadFile(filepath.Join(recordings, name+".json"))
			if err != nil {
				t.Fatal(err)
			}
			s := &stage{t: t}
			p := player.New(player.Options{Servers: player.Servers{Base: "http://" + s.address()}, NoWS: true, NoSlow: testing.Short(), Reset: s.reset, Start: s.start})
			defer p.Close()
			played := 0
			for _, config := range []string{transcript.ConfigDefault, "short-expiry", "seeded"} {
				s.config = config
				results, err := p.Play(t.Context(), f, func(c *transcript.Case) bool { return c.Config == config })
				if err != nil {
					t.Fatal(err)
				}
				for _, r := range results {
					if r.Outcome == player.Fail {
						t.Errorf("%s\n%s\n%v", r.Case.Name, r.Request, r.Diff)
					}
					if r.Outcome == player.Pass {
						played++
					}
				}
			}
			t.Logf("%d cases", played)
			if played == 0 {
				t.Error("nothing was played")
			}
		})
	}
}

// stage runs one broker at a time, at one address.
type stage struct {
	t      *testing.T
	config string
	at     string
	now    *Process
}

func (s *stage) address() string {
	if s.at == "" {
		s.at = cluster.FreshNet() + ".9:8080"
	}
	return s.at
}

// reset starts a broker on an empty bucket.
func (s *stage) reset(context.Context) error {
	s.begin(nil)
	s.now.WaitServing()
	return nil
}

func (s *stage) begin(seed []byte) {
	if s.now != nil {
		s.now.Kill()
	}
	dir := s.t.TempDir()
	if seed != nil {
		if err := os.WriteFile(filepath.Join(dir, key), seed, 0o600); err != nil {
			s.t.Fatal(err)
		}
	}
	cfg := Config{Bucket: "file://" + dir, Address: s.address()}
	if s.config == "short-expiry" {
		cfg.JobTimeout, cfg.Heartbeat = time.Second, 300*time.Millisecond
	}
	s.now = Start(s.t, cfg)
}

func (s *stage) start(_ context.Context, seed []byte) (bool, player.Servers, error) {
	s.begin(seed)
	at := player.Servers{Base: "http://" + s.address()}
	err := cluster.Poll(cluster.LeaderTimeout, func() error {
		if !s.now.Running() {
			return nil
		}
		return Call(s.t.Context(), "GET", s.at, "/healthz", nil, nil)
	})
	return s.now.Running(), at, err
}

// election is a recorded election.
type election struct {
	Name    string
	Request struct {
		Op, Address    string
		Now, TimeoutMs int64
		Document       json.RawMessage
		DocumentText   *string
		Fault          string
	}
	Response struct {
		Result   map[string]any
		Written  bool
		Document json.RawMessage
	}
}

// faults maps the names of the recordings to faults of the store.
var faults = map[string]fault.Rule{
	"createConflict": {Kind: fault.Reject, Ops: []storage.Op{storage.OpPutIfAbsent}},
	"readError":      {Kind: fault.LoseRequest, Ops: []storage.Op{storage.OpGet}},
	"writeError":     {Kind: fault.Throttle, Ops: []storage.Op{storage.OpPutIfMatch}},
}

func TestRecordedElections(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(recordings, "broker_election.json"))
	if err != nil {
		t.Fatal(err)
	}
	var cases []election
	if err := json.Unmarshal(text, &cases); err != nil {
		t.Fatal(err)
	}
	if len(cases) < 30 {
		t.Fatalf("only %d cases", len(cases))
	}
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) { c.play(t) })
	}
}

func (c *election) play(t *testing.T) {
	inner := mem.New()
	b := fault.New(inner, 1)
	if stored := c.stored(); stored != nil {
		inner.PutIfAbsent(t.Context(), key, stored)
	}
	if c.Request.Fault != "" {
		rule, known := faults[c.Request.Fault]
		if !known {
			t.Fatalf("fault %q", c.Request.Fault)
		}
		b.Inject(rule)
	}
	before, _ := inner.Get(t.Context(), key)
	got, want := c.result(t, b), c.Response.Result
	if _, failed := want["error"]; failed {
		want = map[string]any{"error": true}
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("result %v, want %v", got, want)
	}
	after, _ := inner.Get(t.Context(), key)
	if written := after.Version != before.Version; written != c.Response.Written {
		t.Errorf("written: %v", written)
	}
	if c.Response.Written {
		wantText(t, after.Data, c.Response.Document)
	}
}

// stored is the document before the election; nil: none.
func (c *election) stored() []byte {
	switch {
	case c.Request.DocumentText != nil:
		return []byte(*c.Request.DocumentText)
	case string(c.Request.Document) == "null":
		return nil
	default:
		return c.Request.Document
	}
}

func (c *election) result(t *testing.T, b storage.Bucket) map[string]any {
	t.Helper()
	cfg := Config{Address: c.Request.Address, Timeout: time.Duration(c.Request.TimeoutMs) * time.Millisecond}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if c.Request.Op == "checkLeadership" {
		leads, err := cfg.CheckLeadership(ctx, b)
		if err != nil {
			return map[string]any{"error": true}
		}
		return map[string]any{"leader": leads}
	}
	r, err := cfg.TryElect(ctx, b, c.Request.Now)
	if err != nil {
		return map[string]any{"error": true}
	}
	result := map[string]any{"status": r.Status}
	if r.Status == OtherLeader {
		result["leader"] = r.Leader
	}
	return result
}

// wantText compares two documents, including the order of their fields.
func wantText(t *testing.T, got, want []byte) {
	t.Helper()
	var compact bytes.Buffer
	if err := json.Compact(&compact, want); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, compact.Bytes()) {
		t.Errorf("document %s\nwant     %s", got, compact.Bytes())
	}
}

// TestDocumentsAsJavaScriptHasThem checks that parse and stringify return documents as
// JavaScript would write them.
func TestDocumentsAsJavaScriptHasThem(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`{"b":1,"a":{"z":[1,2.50,-0,1e3,1e21,0.1,12345678901234567890,1e999]},"b":2}`: `{"b":2,"a":{"z":[1,2.5,0,1000,1e+21,0.1,12345678901234567000,null]}}`,
		` [ "<é\u0041\n\u2028>" , true , null ] `:                                     "[\"<éA\\n\u2028>\",true,null]",
	} {
		v, err := parse([]byte(in))
		if err != nil {
			t.Fatal(err)
		}
		if got := string(stringify(v)); got != want {
			t.Errorf("%s becomes\n%s, want\n%s", in, got, want)
		}
	}
	for _, in := range []string{``, `{`, `{"a":1}x`, `{"a":1,}`, `nul`} {
		if _, err := parse([]byte(in)); err == nil {
			t.Errorf("%q is read", in)
		}
	}
}
