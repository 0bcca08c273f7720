package cluster

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/storage"
)

// odd returns the document of a legacy broker with fields that osqueue does not know. Its
// broker died silence ago.
func odd(silence time.Duration) string {
	return fmt.Sprintf(`{"schema":3,"broker":"192.0.2.7:80","brokerHeartbeat":%d,"jobs":[`+
		`{"id":"a","status":"unclaimed","payload":1,"createdAt":5,"attempts":0,"note":{"by":["x"]},"size":1.50},`+
		`{"id":"b","status":"unclaimed","createdAt":5,"attempts":0}],"completedTotal":7,"owner":null}`,
		time.Now().Add(-silence).UnixMilli())
}

// seen is the document as text, by field, and its jobs by id.
type seen struct {
	top  map[string]json.RawMessage
	jobs map[string]map[string]json.RawMessage
}

func (l *lab) seen() seen {
	l.t.Helper()
	obj, err := l.bucket.Get(l.t.Context(), DocumentKey)
	if err != nil {
		l.t.Fatal(err)
	}
	s := seen{jobs: make(map[string]map[string]json.RawMessage)}
	if err := json.Unmarshal(obj.Data, &s.top); err != nil {
		l.t.Fatal(err)
	}
	for _, list := range []string{"jobs", "scheduled", "blocked", "finished", "dead"} {
		var jobs []map[string]json.RawMessage
		if text := s.top[list]; text != nil {
			if err := json.Unmarshal(text, &jobs); err != nil {
				l.t.Fatal(err)
			}
		}
		for _, j := range jobs {
			s.jobs[strings.Trim(string(j["id"]), `"`)] = j
		}
	}
	return s
}

// rewrite changes the document by hand.
func (l *lab) rewrite(pairs ...string) {
	l.t.Helper()
	l.eventually("the edit to be stored", func() bool {
		obj, err := l.bucket.Get(l.t.Context(), DocumentKey)
		if err != nil {
			l.t.Fatal(err)
		}
		for i := 0; i < len(pairs); i += 2 {
			if strings.Count(string(obj.Data), pairs[i]) != 1 {
				l.t.Fatalf("not once: %s in %s", pairs[i], obj.Data)
			}
		}
		text := strings.NewReplacer(pairs...).Replace(string(obj.Data))
		return l.bucket.PutIfMatch(l.t.Context(), DocumentKey, []byte(text), obj.Version).Outcome == storage.Committed
	})
}

func (l *lab) copies() (n int) {
	l.t.Helper()
	if err := l.bucket.List(l.t.Context(), "conflicts/", func(storage.Info) bool { n++; return true }); err != nil {
		l.t.Fatal(err)
	}
	return n
}

// extraOf returns the unknown fields that a node has for a job, or for the document if id
// is "".
func extraOf(n *member, id string) string {
	if id == "" {
		return n.View().Meta().Extra
	}
	j := n.Job(id)
	if j == nil {
		return "no job"
	}
	return j.Details().Extra
}

func wantExtra(t *testing.T, n *member, want map[string]string) {
	t.Helper()
	for id, extra := range want {
		if got := extraOf(n, id); got != extra {
			t.Errorf("%s: job %q has %s, want %s", n.Name(), id, got, extra)
		}
	}
}

const (
	extraOfOdd = `{"schema":3,"owner":null}`
	extraOfA   = `{"note":{"by":["x"]},"size":1.50}`
)

// Fields that osqueue does not know survive an adoption, all changes of a job, a restart
// from the disk, and one from the bucket alone.
func TestExtraSurvives(t *testing.T) {
	t.Parallel()
	for form, inlineMax := range map[string]int{"inline": 1 << 20, "large": 2} {
		t.Run(form, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			adjust := func(c *Config) { c.Flush.InlineMax = inlineMax }
			l.put(odd(time.Minute))
			all := l.start("n", 3, adjust)
			n := l.leader(all...)
			wantExtra(t, n, map[string]string{"": extraOfOdd, "a": extraOfA, "b": ""})
			if j := l.claim(n, "w"); j.ID != "a" || j.Details().Extra != extraOfA {
				t.Fatalf("claimed %+v", j)
			}
			r, lsn, err := n.Propose(t.Context(), &fsmpb.Mutation{Op: &fsmpb.Mutation_Complete{
				Complete: &fsmpb.Complete{Worker: "w", Lease: &fsmpb.Lease{JobId: "a"}},
			}})
			if err != nil || r.Code != fsm.OK {
				t.Fatalf("%v, %v", r.Code, err)
			}
			for _, m := range all {
				if err := m.WaitApplied(t.Context(), lsn); err != nil {
					t.Fatal(err)
				}
				wantExtra(t, m, map[string]string{"": extraOfOdd, "a": extraOfA, "b": ""})
			}
			l.eventually("the flush", func() bool { return l.document().Header.LSN().Compare(lsn) >= 0 })
			check := func() {
				t.Helper()
				s := l.seen()
				if string(s.top["schema"]) != "3" || string(s.top["owner"]) != "null" {
					t.Errorf("the document is %s", s.top)
				}
				if _, large := s.top["counts"]; large != (form == "large") {
					t.Errorf("large is %v", large)
				}
				if a := s.jobs["a"]; form == "inline" && (string(a["note"]) != `{"by":["x"]}` || string(a["size"]) != "1.50") {
					t.Errorf("the job is %s", a)
				}
			}
			check()
			if err := n.raft.Snapshot().Error(); err != nil {
				t.Fatal(err)
			}
			for _, m := range all {
				m.stop()
			}
			next := make([]*member, len(all))
			for i, m := range all {
				next[i] = l.again(m, m.cfg.DataDir, adjust)
			}
			wantExtra(t, l.leader(next...), map[string]string{"": extraOfOdd, "a": extraOfA, "b": ""})
			check()
			for _, m := range next {
				m.stop()
			}
			wantExtra(t, l.leader(l.start("o", 1, adjust)...), map[string]string{"": extraOfOdd, "a": extraOfA, "b": ""})
			check()
			if n := l.copies(); n != 0 {
				t.Errorf("%d documents are said to have been edited", n)
			}
		})
	}
}

// A change of an unknown field in the document takes effect: new, changed and removed
// fields, in the document and in jobs.
func TestExtraIsEdited(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.put(odd(time.Minute))
	n := l.leader(l.start("n", 1, nil)...)
	l.eventually("our document", func() bool { return l.document().Header != nil })
	lsn := l.enqueue(n, "c")
	l.eventually("the flush", func() bool { return l.document().Header.LSN().Compare(lsn) >= 0 })
	l.rewrite(`,"schema":3`, ``, `"owner":null`, `"owner":"me","new":[]`, `,"size":1.50`, ``, `{"by":["x"]}`, `"y"`,
		`{"id":"b",`, `{"mark":1,"id":"b",`,
		`"jobs":[`, `"jobs":[{"id":"by-hand","status":"unclaimed","createdAt":1,"attempts":0,"note":7},`)
	want := map[string]string{
		"": `{"owner":"me","new":[]}`, "a": `{"note":"y"}`, "b": `{"mark":1}`, "c": "", "by-hand": `{"note":7}`,
	}
	l.eventually("the edit to be taken over", func() bool { return extraOf(n, "") == want[""] && n.Job("by-hand") != nil })
	wantExtra(t, n, want)
	l.eventually("the next flush", func() bool {
		s := l.seen()
		return string(s.top["new"]) == "[]" && s.top["schema"] == nil && string(s.jobs["by-hand"]["note"]) == "7" &&
			string(s.jobs["b"]["mark"]) == "1" && s.jobs["a"]["size"] == nil && s.jobs["by-hand"]["seq"] != nil
	})
	if copies := l.copies(); copies != 1 {
		t.Errorf("%d copies", copies)
	}
}

// The same while no leader is active, in both forms of the document.
func TestExtraIsEditedBetweenLeaders(t *testing.T) {
	t.Parallel()
	for form, inlineMax := range map[string]int{"inline": 1 << 20, "large": 2} {
		t.Run(form, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			adjust := func(c *Config) { c.Flush.InlineMax = inlineMax }
			l.put(odd(time.Minute))
			n := l.leader(l.start("n", 1, adjust)...)
			l.eventually("our document", func() bool { d := l.document(); return d.Header != nil && d.Counts[fsm.Unclaimed] == 2 })
			n.stop()
			edits := []string{`"schema":3`, `"schema":4`}
			want := map[string]string{"": `{"schema":4,"owner":null}`, "a": extraOfA}
			if form == "inline" {
				edits = append(edits, `"size":1.50`, `"size":2`)
				want["a"] = `{"note":{"by":["x"]},"size":2}`
			}
			l.rewrite(edits...)
			n = l.leader(l.again(n, n.cfg.DataDir, adjust))
			l.eventually("the edit to be taken over", func() bool { return extraOf(n, "") == want[""] && extraOf(n, "a") == want["a"] })
			l.eventually("the next flush", func() bool { return l.document().Meta.Extra == want[""] })
			if copies := l.copies(); copies != 1 {
				t.Errorf("%d copies", copies)
			}
		})
	}
}

// A copy of a legacy document is stored if a part of it cannot be kept.
func TestExtraThatCannotBeKept(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	text := strings.Replace(odd(time.Minute), `"size":1.50`, `"tags":["somebody else's"],"long":"`+strings.Repeat("x", fsm.ExtraMax)+`"`, 1)
	l.put(text)
	n := l.leader(l.start("n", 1, nil)...)
	wantExtra(t, n, map[string]string{"": extraOfOdd, "a": `{"note":{"by":["x"]}}`})
	if tags := n.Job("a").Options().Tags; tags != nil {
		t.Errorf("somebody else's tags are ours: %q", tags)
	}
	var key string
	if err := l.bucket.List(t.Context(), "conflicts/", func(i storage.Info) bool { key = i.Key; return true }); err != nil || key == "" {
		t.Fatalf("no copy, %v", err)
	}
	obj, err := l.bucket.Get(t.Context(), key)
	if err != nil || string(obj.Data) != text {
		t.Fatalf("%v, the copy is %s", err, obj.Data)
	}
}
