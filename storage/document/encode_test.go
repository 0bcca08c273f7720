package document_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/storage/document"
)

var update = flag.Bool("update", false, "write the golden file anew")

// TestGolden pins the form of a document.
func TestGolden(t *testing.T) {
	const file = "testdata/document.json"
	got := document.Encode(contentOf(queue(t).View()), header, address, heartbeat)
	if *update {
		if err := os.WriteFile(file, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil || !bytes.Equal(got, want) {
		t.Fatalf("%v; got\n%s\nwant\n%s", err, got, want)
	}
}

// TestRoundTrip checks that Decode returns what Encode was given.
func TestRoundTrip(t *testing.T) {
	m := queue(t)
	for name, c := range map[string]*document.Content{
		"whole": contentOf(m.View()),
		"young": {Archive: &document.Archive{Tail: document.Tail{
			Run: document.Run{Last: m.LSN(), Entries: m.LSN().Index, From: 1, Until: 2, Raw: 3}, Data: []byte{1},
		}}, Meta: m.Meta(), Counts: m.Counts(), Jobs: m.View(), ViewMax: document.ViewMax},
		"without jobs": {Archive: reaching(m.LSN()), Meta: m.Meta(), Counts: m.Counts()},
	} {
		if err := c.Check(); err != nil {
			t.Fatal(err)
		}
		d := decode(t, document.Encode(c, header, address, heartbeat))
		meta := m.Meta()
		want := header
		want.Format, want.Level, want.Address, want.Heartbeat = document.Format, meta.Level, address, heartbeat
		want.Term, want.Index, want.Registered = meta.LSN().Term, meta.LSN().Index, meta.Epoch
		want.Now, want.LastSeq, want.LastToken, want.Counts = meta.NowMs, meta.LastSeq, meta.LastToken, m.Counts()
		want.View = d.Header.View
		if !reflect.DeepEqual(*d.Header, want) || !reflect.DeepEqual(d.Archive, c.Archive) || !d.Header.Describes(m) {
			t.Errorf("%s: read as %+v, %+v\nwant %+v, %+v", name, d.Header, d.Archive, want, c.Archive)
		}
		if d.Edited || d.Overtaken || d.View != nil || d.Viewed != (c.Jobs != nil) || d.BrokerAddress() != address || d.BrokerHeartbeat != heartbeat {
			t.Errorf("%s: %+v", name, d)
		}
		if !reflect.DeepEqual(d.Fence(), header.Fence) || d.LSN() != meta.LSN() || d.Now() != meta.NowMs || d.Lineage() != "li" {
			t.Errorf("%s: fence %+v", name, d.Fence())
		}
	}
}

// TestLargeNumbers checks that numbers that JavaScript cannot represent survive.
func TestLargeNumbers(t *testing.T) {
	h := header
	h.Epoch = 1<<63 + 1
	data := document.Encode(contentOf(queue(t).View()), h, "", heartbeat)
	if d := decode(t, data); d.Header.Epoch != h.Epoch || !bytes.Contains(data, []byte(`"epoch":"9223372036854775809"`)) || d.Broker != nil {
		t.Errorf("%s", data)
	}
}

// TestContentIsChecked refuses a content that could not be read again.
func TestContentIsChecked(t *testing.T) {
	m := queue(t)
	for name, spoil := range map[string]func(c *document.Content){
		"no archive":        func(c *document.Content) { c.Archive = nil },
		"jobs of another":   func(c *document.Content) { c.Jobs = fsm.New().View() },
		"meta of another":   func(c *document.Content) { c.Jobs, c.Meta = nil, fsmpb.Copy(c.Meta); c.Meta.Index = 1 },
		"a hole":            func(c *document.Content) { c.Archive.Log = nil },
		"no checkpoint":     func(c *document.Content) { c.Archive.Checkpoint = document.Checkpoint{} },
		"a tail of nothing": func(c *document.Content) { c.Archive.Tail.Data = nil },
		"a wrong key":       func(c *document.Content) { c.Archive.Log[0].Key = "/" },
	} {
		c := contentOf(m.View())
		if spoil(c); c.Check() == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestView checks that the jobs are shown exactly if they take no more than the bound, and that
// the previous content of the buffer stays unchanged.
func TestView(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := fsm.New()
		for i := range rapid.IntRange(0, 6).Draw(t, "jobs") {
			payload := rapid.OneOf(rapid.SliceOf(rapid.Byte()), rapid.SliceOf(rapid.SampledFrom([]byte(" 1\"\n{}[]")))).Draw(t, "payload")
			apply(t, m, enqueue(&fsmpb.NewJob{Id: fmt.Sprint(i), Type: rapid.String().Draw(t, "type"), Payload: payload}))
		}
		if m.Counts().Sum() == 0 {
			apply(t, m)
		}
		apply(t, m, claim("w", uint32(rapid.IntRange(0, 3).Draw(t, "claimed"))+1))
		c := contentOf(m.View())
		plain := document.Encode(c, header, address, heartbeat)
		from := bytes.Index(plain, []byte(`"jobs":`)) + len(`"jobs":`)
		size := bytes.Index(plain, []byte(`,"completedTotal":`)) - from
		for more := -1; more <= 1; more++ {
			c.ViewMax = size + more
			data, viewed := document.AppendTo([]byte("before"), c, header, address, heartbeat)
			text, kept := bytes.CutPrefix(data, []byte("before"))
			d, err := document.Decode(text)
			if err != nil || !kept || viewed && more < 0 || d.Viewed != viewed || d.Edited {
				t.Fatalf("%d bytes within %d: viewed %v, %v in %s", size, c.ViewMax, viewed, err, data)
			}
			if !viewed && more >= 0 && utf8Only(m) {
				t.Fatalf("%d bytes within %d are not shown", size, c.ViewMax)
			}
		}
	})
}

// utf8Only reports whether all payloads are shown, so that their length is a lower bound.
func utf8Only(m *fsm.Machine) bool {
	all := true
	m.View().List(fsm.Index{}, []fsm.Status{fsm.Unclaimed, fsm.InProgress}, 0, func(j *fsm.Job) bool {
		all = all && bytes.Contains(document.EncodeJobs([]*fsm.Job{j}, ""), []byte(`"payload":`))
		return all
	})
	return all
}

// TestDeepQueueIsNotEncoded checks that a queue that is far too deep costs nothing.
func TestDeepQueueIsNotEncoded(t *testing.T) {
	m := fsm.New()
	for i := range 100 {
		jobs := make([]*fsmpb.NewJob, 100)
		for k := range jobs {
			jobs[k] = &fsmpb.NewJob{Id: fmt.Sprintf("%d-%d", i, k)}
		}
		apply(t, m, enqueue(jobs...))
	}
	v := m.View()
	c := contentOf(v)
	buf := make([]byte, 0, 4096)
	var viewed bool
	allocs := testing.AllocsPerRun(10, func() { _, viewed = document.AppendTo(buf, c, header, address, heartbeat) })
	if viewed || allocs > 200 {
		t.Errorf("viewed %v, %v allocations", viewed, allocs)
	}
	m = fsm.New() // a few large jobs
	apply(t, m, enqueue(&fsmpb.NewJob{Id: "a", Payload: []byte(`"` + strings.Repeat("x", document.ViewMax) + `"`)}))
	if _, viewed := document.AppendTo(nil, contentOf(m.View()), header, address, heartbeat); viewed {
		t.Error("a large job is shown")
	}
}

// TestEncodeState checks that the answer for people is no document of a leader.
func TestEncodeState(t *testing.T) {
	data := document.EncodeState(queue(t).View())
	if !bytes.Contains(data, []byte(`"index":3`)) || !bytes.Contains(data, []byte(`"jobs":[{"id":"a"`)) {
		t.Errorf("%s", data)
	}
	if d, err := document.Decode(data); err == nil {
		t.Errorf("it is read as %+v", d)
	}
}

// TestCopies checks that copies for people have what cannot be carried over, and can be read as
// legacy documents.
func TestCopies(t *testing.T) {
	m := queue(t)
	apply(t, m, &fsmpb.Mutation{Op: &fsmpb.Mutation_ForceComplete{ForceComplete: &fsmpb.ForceComplete{JobId: "a", Result: []byte(`{"r":1}`)}}})
	jobs := document.EncodeJobs([]*fsm.Job{m.Job("a"), m.Job("b")}, `a "reason"`)
	for _, part := range []string{`"reason":"a \"reason\""`, `"result":{"r":1}`, `"status":"completed"`, `"Type":"mail"`} {
		if !bytes.Contains(jobs, []byte(part)) {
			t.Errorf("%s is not in %s", part, jobs)
		}
	}
	if _, m := legacyOf(t, string(jobs)); m.Job("b") == nil || m.Job("a").Status != fsm.Dead {
		t.Errorf("read as %v", m.Counts())
	}
	r := &document.Records{Settings: []*fsm.QueueSettings{{Name: "q", MaxRunning: 3}}, Limits: []*fsm.Limit{{Name: "customer:*", Rule: &fsm.LimitRule{Burst: 9}}}, Deleted: []string{"schedule s"}}
	if text := string(document.EncodeRecords(r, "why")); !strings.Contains(text, `"name":"q"`) || !strings.Contains(text, `"max_running":3`) || !strings.Contains(text, `"limits":[{"name":"customer:*","rule":{"burst":9}}]`) || r.Len() != 3 {
		t.Errorf("%s", text)
	} else {
		legacyOf(t, text)
	}
	legacyOf(t, string(document.EncodeRecords(&document.Records{}, "")))
}
