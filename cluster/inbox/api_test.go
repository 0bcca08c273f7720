package inbox_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"osqueue/api"
	"osqueue/cluster/inbox"
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/storage"
	"osqueue/storage/mem"
)

// TestWithTheRulesOfTheAPI parses files as the program does.
func TestWithTheRulesOfTheAPI(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, m, index := mem.New(), fsm.New(), uint64(0)
		for id, body := range map[string]string{
			"good":   `{"type":"mail","payload":{"a": 1},"priority":3,"tags":["x"],"delayMs":1000}`,
			"nojson": `hello`, "wrong": `{"priority":"high"}`, "another": `{"id":"good"}`, "control": `{"type":"a\nb"}`,
			"large": `{"payload":"` + strings.Repeat("x", 3000) + `"}`,
		} {
			if err := inbox.Put(t.Context(), b, id, []byte(body)); err != nil {
				t.Fatal(err)
			}
		}
		box := inbox.New(inbox.Config{
			Bucket:   b,
			Interval: time.Second,
			Parse:    api.JobReader(api.Limits{}, 2000, func() int64 { return time.Now().UnixMilli() }),
			Propose: func(_ context.Context, ms []*fsmpb.Mutation) ([]fsm.Result, fsm.LSN, error) {
				index++
				res := m.Apply(index, 1, &fsmpb.Batch{NowMs: time.Now().UnixMilli(), Mutations: ms})
				return res, m.Meta().LSN, nil
			},
			Requested: func(*fsmpb.Request) bool { return false },
			Flushed:   func(context.Context, fsm.LSN) error { return nil },
		})
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		box.Run(ctx)
		if s := box.Stats(); s.Taken != 1 || s.Rejected != 5 || s.Failing != "" {
			t.Errorf("%+v", s)
		}
		if j := m.Job("good"); j == nil || j.Status != fsm.Scheduled || string(j.Payload()) != `{"a": 1}` || j.Priority != 3 {
			t.Errorf("%+v", j)
		}
		for id, why := range map[string]string{
			"nojson": "must be a JSON object", "wrong": "priority: want a whole number", "another": `must be \"another\"`,
			"control": "control character", "large": "larger than 2000 bytes",
		} {
			o, err := b.Get(t.Context(), inbox.RejectedPrefix+id+".reason.json")
			if err != nil || !strings.Contains(string(o.Data), why) {
				t.Errorf("%s: %s, %v; want %q", id, o.Data, err, why)
			}
		}
		if err := b.List(t.Context(), inbox.Prefix, func(o storage.Info) bool {
			if !strings.HasPrefix(o.Key, inbox.RejectedPrefix) {
				t.Errorf("%s is left", o.Key)
			}
			return true
		}); err != nil {
			t.Error(err)
		}
	})
}
