package inbox

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json"

	"osqueue/fsm"
	"osqueue/internal/storagetest/fault"
	"osqueue/storage"
)

// wantRejected checks that a file was moved, under that name.
func (w *world) wantRejected(stem, data, why string) {
	w.t.Helper()
	keys := w.keys(RejectedPrefix)
	for _, key := range []string{RejectedPrefix + stem + ".json", RejectedPrefix + stem + ".reason.json"} {
		if !slices.Contains(keys, key) {
			w.t.Errorf("no %s among %v", key, keys)
			return
		}
	}
	if got := w.read(RejectedPrefix + stem + ".json"); got != data {
		w.t.Errorf("%s was moved as %q, want %q", stem, got, data)
	}
	var r Reason
	if err := json.Unmarshal([]byte(w.read(RejectedPrefix+stem+".reason.json")), &r); err != nil || !strings.Contains(r.Reason, why) ||
		r.At == 0 || !strings.HasPrefix(r.Key, Prefix) {
		w.t.Errorf("%s: %+v, %v; want the reason %q", stem, r, err, why)
	}
}

func TestBadFilesAreRejected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(s *fsm.Settings) { s.MaxPayload = 10 })
		long := strings.Repeat("x", 180)
		w.put("json.json", `{`)
		w.put("empty.json", ``)
		w.put("other.json", `{"id":"another"}`)
		w.put("large.json", `{"payload":"more than ten bytes"}`)
		w.put(long+".json", `{}`)
		w.put("x.reason.json", `[`)
		w.drop("good")
		b := w.leader().box()
		run(b, time.Second)
		w.wantOnce("good")
		w.wantRejected("json", `{`, "not valid JSON")
		w.wantRejected("empty", ``, "not valid JSON")
		w.wantRejected("other", `{"id":"another"}`, "the id is wrong")
		w.wantRejected("large", `{"payload":"more than ten bytes"}`, "larger than the quota")
		w.wantRejected(rejectedStem(long, []byte(`{}`), false), `{}`, "the id is wrong")
		w.wantRejected(rejectedStem("x.reason", []byte(`[`), false), `[`, "not valid JSON")
		if got := b.Stats(); got != (Stats{Taken: 1, Rejected: 6}) {
			t.Errorf("%+v", got)
		}
		if n := len(w.keys(RejectedPrefix)); n != 12 || len(w.files()) > 0 {
			t.Errorf("%d names; in the inbox %v", n, w.files())
		}
	})
}

// TestRejectedAgain checks that another file with the name of a rejected one is kept in
// addition to it.
func TestRejectedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for _, data := range []string{"{", "[", "{", "}"} {
			w.put("a.json", data)
			run(w.leader().box(), time.Second)
		}
		w.wantRejected("a", "{", "JSON")
		w.wantRejected(rejectedStem("a", []byte("["), true), "[", "JSON")
		w.wantRejected(rejectedStem("a", []byte("}"), true), "}", "JSON")
		if n := len(w.keys(RejectedPrefix)); n != 6 || len(w.keys(Prefix)) > 0 {
			t.Errorf("%d names", n)
		}
	})
}

// TestUsedIDs puts files under ids that a file or another request has used before.
func TestUsedIDs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		b := w.leader().box()
		put := func(data string) {
			w.put("a.json", data)
			run(b, time.Second)
		}
		put(`{"type":"t"}`)
		put(`{"type":"t"}`) // the same bytes: a repetition
		put(`{"type":"u"}`)
		w.wantOnce("a")
		w.wantRejected("a", `{"type":"u"}`, "the id was used before for a file with other content: use a new id")

		m, _ := parse("b", []byte(`{"type":"t"}`))
		w.do(m)
		w.put("b.json", `{"type":"u"}`)
		run(b, time.Second)
		w.wantRejected("b", `{"type":"u"}`, "the id belongs to another job")
		if got := b.Stats(); got != (Stats{Taken: 1, Repeated: 1, Rejected: 2}) {
			t.Errorf("%+v", got)
		}
	})
}

// TestRepetitionAfterTheJobIsGone checks that the request key outlives the job.
func TestRepetitionAfterTheJobIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(s *fsm.Settings) { s.RetainCompletedMs = 1000 })
		w.drop("a")
		b := w.leader().box()
		run(b, time.Second)
		w.complete("a")
		time.Sleep(time.Hour)
		w.drop("a")
		run(b, time.Second)
		if w.job("a") != nil || w.enqueued("a") != 1 || len(w.files()) > 0 {
			t.Errorf("job %v, added %d times, files %v", w.job("a"), w.enqueued("a"), w.files())
		}
	})
}

// TestRejectingIsTriedAgain checks that a file that cannot be moved stays, and does not
// block other files.
func TestRejectingIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for i := range 30 {
			w.put(fmt.Sprintf("bad%02d.json", i), `{`)
		}
		w.drop("z")
		rule := w.bucket.Inject(fault.Rule{Kind: fault.LoseRequest, Ops: []storage.Op{storage.OpPutIfAbsent}})
		b := w.leader().box()
		go run(b, time.Hour)
		time.Sleep(time.Minute)
		if w.job("z") == nil || len(w.files()) != 30 || b.Stats().Failing == "" {
			t.Errorf("z is %v, %d files, %+v", w.job("z"), len(w.files()), b.Stats())
		}
		rule.Stop()
		time.Sleep(10 * time.Minute)
		w.wantOnce("z")
		if got := b.Stats(); got != (Stats{Taken: 1, Rejected: 30}) {
			t.Errorf("%+v", got)
		}
		time.Sleep(time.Hour)
	})
}
