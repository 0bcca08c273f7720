package legacy

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"osqueue/storage"
	"osqueue/storage/document"
	"osqueue/tests/cluster"
)

// onTop and onJob are fields that neither kind of broker knows, as JavaScript writes them.
const (
	onTop  = `"ofNeither":{"a":[1,null]},"schema":3`
	onJob  = `"ofNeither":"of a job","when":{"by":["x"]}`
	marker = "ofNeither"
)

// TestUnknownMembers checks that fields which neither kind of broker knows survive terms
// of both, repeatedly, and that manual edits in between are kept.
func TestUnknownMembers(t *testing.T) {
	t.Parallel()
	for _, disks := range []string{"kept", "lost"} {
		t.Run("disks="+disks, func(t *testing.T) {
			t.Parallel()
			b := begin(t)
			b.plant(fmt.Sprintf(`{%s,"broker":"192.0.2.1:1","brokerHeartbeat":%d,"jobs":[`+
				`{"id":"first","status":"unclaimed","payload":1,"createdAt":1,"attempts":0,%s},`+
				`{"id":"second","status":"unclaimed","payload":2,"createdAt":2,"attempts":0,%s}],"completedTotal":7,"last":true}`,
				onTop, time.Now().Add(-time.Minute).UnixMilli(), onJob, onJob))
			var third string
			b.legacyTerm(func(at caller) {
				third = at.submit(fields{"payload": 3})
				if id := at.claim(fields{"workerId": "w"}); id != "first" {
					t.Errorf("claimed %s", id)
				}
			})
			b.has(`"last":true`, onTop, nil, map[string]string{"first": onJob, "second": onJob, third: ""})

			c := b.ours(1)
			start(c)
			c.WaitLeader()
			b.flushed(c)
			b.has(`"last":true`, onTop, nil, map[string]string{"first": onJob, "second": onJob, third: ""})
			at := caller{t, c.Nodes[0].HTTP}
			at.complete("first", fields{"workerId": "w"})
			if id := at.claim(fields{"workerId": "w"}); id != "second" {
				t.Errorf("claimed %s", id)
			}
			b.answers(c)
			b.edit(c, `"last":true`, `"last":[false]`, `"payload":3,`, `"payload":3,"`+marker+`":4,`)
			later := map[string]string{"second": onJob, third: `"` + marker + `":4`}
			// The write after the conflict may still lack the edit; the next write contains it.
			c.Eventually(10*time.Second, "the document to have the edit", func() error {
				return b.lacks(`"last":[false]`, onTop, []string{"first"}, later)
			})
			b.stop(c)

			b.legacyTerm(func(at caller) { at.beat("second", fields{"workerId": "w"}) })
			b.has(`"last":[false]`, onTop, []string{"first"}, later)
			b.replace(`,"when":{"by":["x"]}`, ``) // of both jobs that have it
			later["second"] = `"` + marker + `":"of a job"`
			if disks == "lost" {
				for _, n := range c.Nodes {
					n.Wipe()
				}
			}
			start(c)
			c.WaitLeader()
			b.flushed(c)
			b.has(`"last":[false]`, onTop, nil, later)
			if s := b.document(); s.Lost != 0 || s.Meta.CompletedTotal != 8 {
				t.Errorf("%d are lost, %d completed", s.Lost, s.Meta.CompletedTotal)
			}
		})
	}
}

// plant writes the document before any broker has started.
func (b *together) plant(text string) {
	b.Helper()
	if w := b.store.Bucket().PutIfAbsent(b.Context(), key, []byte(text)); w.Outcome != storage.Committed {
		b.Fatalf("put the document: %v", w.Err)
	}
}

// legacyTerm runs a legacy broker, which is elected when the previous one counts as dead.
func (b *together) legacyTerm(work func(at caller)) {
	b.Helper()
	old := b.legacy(patient)
	old.WaitServing()
	work(caller{b.T, old.Address})
	old.Kill()
	b.store.Settle()
}

// replace edits the document: it replaces every occurrence of one text. It returns the
// result.
func (b *together) replace(pairs ...string) (edited []byte) {
	b.Helper()
	err := cluster.Poll(10*time.Second, func() error {
		o, err := b.store.Bucket().Get(b.Context(), key)
		if err != nil {
			return err
		}
		for i := 0; i < len(pairs); i += 2 {
			if !strings.Contains(string(o.Data), pairs[i]) {
				return fmt.Errorf("no %s in %s", pairs[i], o.Data)
			}
		}
		edited = []byte(strings.NewReplacer(pairs...).Replace(string(o.Data)))
		return b.store.Bucket().PutIfMatch(b.Context(), key, edited, o.Version).Err
	})
	if err != nil {
		b.Fatal(err)
	}
	return edited
}

// edit calls replace while our leader is active, and waits until the leader has adopted
// the edit.
func (b *together) edit(c *cluster.Cluster, pairs ...string) {
	b.Helper()
	edited, err := document.Decode(b.replace(pairs...))
	if err != nil {
		b.Fatal(err)
	}
	c.Eventually(10*time.Second, "the edit to be taken over", func() error {
		if b.document().Header.Write == edited.Header.Write {
			return errors.New("nobody has written since")
		}
		return nil
	})
}

// has checks the fields of the document and of the given jobs in any list.
func (b *together) has(last, top string, ended []string, jobs map[string]string) {
	b.Helper()
	if err := b.lacks(last, top, ended, jobs); err != nil {
		b.Error(err)
	}
}

// lacks returns an error that names every field of want that the document lacks.
func (b *together) lacks(last, top string, ended []string, jobs map[string]string) error {
	b.Helper()
	var doc map[string]json.RawMessage
	if err := json.Unmarshal(b.text(), &doc); err != nil {
		b.Fatal(err)
	}
	wrong := b.subset("the document", doc, top+","+last)
	there := make(map[string]map[string]json.RawMessage)
	for _, list := range []string{"jobs", "finished", "dead"} {
		var in []map[string]json.RawMessage
		if text := doc[list]; text != nil && json.Unmarshal(text, &in) != nil {
			b.Fatalf("the list %s is %s", list, text)
		}
		for _, j := range in {
			there[strings.Trim(string(j["id"]), `"`)] = j
		}
	}
	for _, id := range ended {
		wrong = append(wrong, b.subset("the ended job "+id, there[id], onJob)...)
	}
	for id, members := range jobs {
		wrong = append(wrong, b.subset("job "+id, there[id], members)...)
		for _, name := range []string{marker, "when"} {
			if _, has := there[id][name]; has != strings.Contains(members, `"`+name+`":`) {
				wrong = append(wrong, fmt.Errorf("job %s has %s: %v", id, name, has))
			}
		}
	}
	return errors.Join(wrong...)
}

func (b *together) subset(what string, got map[string]json.RawMessage, members string) (wrong []error) {
	b.Helper()
	var want map[string]json.RawMessage
	if err := json.Unmarshal([]byte("{"+members+"}"), &want); err != nil {
		b.Fatal(err)
	}
	for name, value := range want {
		if string(got[name]) != string(value) {
			wrong = append(wrong, fmt.Errorf("%s has %s as %s, want %s", what, name, got[name], value))
		}
	}
	return wrong
}

// answers checks that our nodes show the whole document at /state, as a legacy broker
// does, and unknown fields nowhere else.
func (b *together) answers(c *cluster.Cluster) {
	b.Helper()
	for path, want := range map[string]bool{"/state": true, "/v1/jobs": false, "/v1/jobs/second": false, "/v1/stats": false} {
		var text json.RawMessage
		if err := Call(b.Context(), http.MethodGet, c.Nodes[0].HTTP, path, nil, &text); err != nil {
			b.Fatal(err)
		}
		if has := strings.Contains(string(text), marker); has != want {
			b.Errorf("GET %s shows nobody's members: %v\n%s", path, has, text)
		}
	}
}
