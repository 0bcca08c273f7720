package api

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "osqueue/client/api/v1"
	"osqueue/fsm/fsmpb"
)

func (g *rig) queue(name string) v1.Queue {
	g.t.Helper()
	return ok[v1.Queue](g.t, g.do("GET", "/v1/queues/"+name, ""))
}

func (g *rig) patch(name, body string) v1.Queue {
	g.t.Helper()
	a := g.do("PATCH", "/v1/queues/"+name, body, "Prefer", v1.PreferStrict)
	if a.header.Get(v1.HeaderLSN) == "" {
		g.t.Errorf("no LSN on the answer to %s", body)
	}
	return ok[v1.Queue](g.t, a)
}

func TestEveryTypeExists(t *testing.T) {
	g := newRig(t)
	a := g.do("GET", "/v1/queues/none", "")
	sameJSON(t, a.body, `{"type":"none","scheduled":0,"unclaimed":0,"inProgress":0,"completed":0,"dead":0,"cancelled":0,`+
		`"blocked":0,"bytes":0,"settings":{}}`)
	if a.header.Get(v1.HeaderLSN) != "3-1" {
		t.Fatalf("LSN %q", a.header.Get(v1.HeaderLSN))
	}
	sameJSON(t, g.do("GET", "/v1/queues", "").body, `{"queues":[],"lsn":"3-1"}`)
}

func TestQueueFigures(t *testing.T) {
	g := newRig(t)
	g.submit("a", "t")
	g.claim1()
	g.node.tick(time.Second)
	g.submit("b", "t")
	g.node.tick(time.Second)
	g.submit("c", "t")
	q := g.queue("t")
	want := v1.TypeStats{Unclaimed: 2, InProgress: 1, Bytes: int64(3 * len(`{"n":1}`))}
	if q.TypeStats != want || q.OldestAt != startMs+1000 || q.Type != "t" {
		t.Fatalf("got %+v", q)
	}
}

func TestQueueSettings(t *testing.T) {
	g := newRig(t)
	const all = `{"paused":true,"maxRunning":9223372036854775807,"maxRunningPerGroup":3,"ratePerSecond":0.001,"burst":5,` +
		`"leaseMs":1000,"timeoutMs":2000,"maxAttempts":0,"backoff":{"kind":"exponential","baseMs":100,"capMs":5000,"jitter":20},` +
		`"retainMs":0,"retainCount":0,"maxJobs":100,"maxBytes":1000,"maxPayload":10}`
	g.patch("t", all)
	shown := func() string {
		_, after, _ := strings.Cut(string(g.do("GET", "/v1/queues/t", "").body), `"settings":`)
		return strings.TrimSuffix(after, "}")
	}
	if got := shown(); got != all {
		t.Fatalf("got  %s\nwant %s", got, all)
	}
	// What is absent stays.
	if got := g.patch("t", `{"maxRunning":7}`); got.Settings.MaxRunning != 7 || !got.Settings.Paused || got.Settings.Burst != 5 {
		t.Fatalf("got %+v", got.Settings)
	}
	g.patch("t", `{}`)
	// null is the default of each, and 0 is no limit.
	for _, member := range []string{
		"paused", "maxRunning", "maxRunningPerGroup", "ratePerSecond", "burst", "leaseMs", "timeoutMs", "maxAttempts",
		"backoff", "retainMs", "retainCount", "maxJobs", "maxBytes", "maxPayload",
	} {
		if !strings.Contains(shown(), `"`+member+`"`) {
			t.Errorf("%s is not there", member)
		}
		g.patch("t", `{"`+member+`":null}`)
		if strings.Contains(shown(), `"`+member+`"`) {
			t.Errorf("%s is still there: %s", member, shown())
		}
	}
	if got := shown(); got != "{}" {
		t.Fatalf("got %s", got)
	}
	// The rate goes by thousandths.
	for given, want := range map[string]string{"1000000": "1000000", "2.5": "2.5", "0.0014": "0.001", "3.9996": "4"} {
		g.patch("t", `{"ratePerSecond":`+given+`}`)
		if got := shown(); got != `{"ratePerSecond":`+want+`}` {
			t.Errorf("%s: got %s", given, got)
		}
	}
}

// Settings do something: this holds the names on the wire against the machine.
func TestPausedQueuesGiveNothing(t *testing.T) {
	g := newRig(t)
	g.submit("a", "t")
	if q := ok[v1.Queue](t, g.do("POST", "/v1/queues/t/pause", "")); !q.Settings.Paused || q.Unclaimed != 1 {
		t.Fatalf("got %+v", q)
	}
	if j := g.claim1(); j.JobID != "" {
		t.Fatalf("claimed %+v", j)
	}
	ok[v1.Queue](t, g.do("POST", "/v1/queues/t/pause", "")) // twice does no harm
	if q := ok[v1.Queue](t, g.do("POST", "/v1/queues/t/resume", "")); q.Settings.Paused {
		t.Fatalf("got %+v", q)
	}
	if j := g.claim1(); j.JobID != "a" {
		t.Fatalf("claimed %+v", j)
	}
}

// A pause has a reason and an end, at which the queue resumes the type by itself.
func TestPauseWithReasonAndEnd(t *testing.T) {
	g := newRig(t)
	g.submit("a", "t")
	q := ok[v1.Queue](t, g.do("POST", "/v1/queues/t/pause", `{"reason":"down","forMs":60000}`))
	if want := (v1.Pause{Reason: "down", Since: startMs, Until: startMs + 60_000}); q.Pause == nil || *q.Pause != want {
		t.Fatalf("got %+v, want %+v", q.Pause, want)
	}
	for body, member := range map[string]string{
		`{"until":1700000000}`:                          "/until",
		`{"forMs":1,"until":9999999999999}`:             "/forMs",
		`{"reason":"` + strings.Repeat("x", 513) + `"}`: "/reason",
		`{"reason":"a\nb"}`:                             "/reason",
	} {
		if p := refused(t, g.do("POST", "/v1/queues/t/pause", body), http.StatusBadRequest, v1.TagBadRequest); !slices.Equal(p.Members, []string{member}) {
			t.Errorf("%s: %+v", body, p)
		}
	}
	g.node.tick(59 * time.Second)
	if j := g.claim1(); j.JobID != "" {
		t.Fatalf("claimed %+v", j)
	}
	g.node.tick(time.Second)
	if j := g.claim1(); j.JobID != "a" {
		t.Fatalf("claimed %+v", j)
	}
	if q := g.queue("t"); q.Settings.Paused || q.Pause != nil {
		t.Errorf("got %+v", q)
	}
	ok[v1.Queue](t, g.do("POST", "/v1/queues/t/pause", ""))
	if q := g.queue("t"); q.Pause == nil || q.Pause.Since != startMs+60_000 || q.Pause.Until != 0 {
		t.Errorf("got %+v", q.Pause)
	}
}

func TestQueueReset(t *testing.T) {
	g := newRig(t)
	g.submit("a", "t")
	g.patch("t", `{"paused":true,"maxJobs":1}`)
	p := refused(t, g.do("POST", "/v1/jobs", `{"type":"t"}`), http.StatusTooManyRequests, v1.TagTooManyJobs)
	if p.Committed != v1.CommittedNo || p.RetryAfterMs == 0 {
		t.Fatalf("problem %+v", p)
	}
	for range 2 { // the second has nothing to do, and is no error
		a := g.do("DELETE", "/v1/queues/t", "")
		if done := ok[v1.Done](t, a); done.LSN == "" || a.header.Get(v1.HeaderLSN) != done.LSN {
			t.Fatalf("answered %s", a.body)
		}
	}
	if q := g.queue("t"); q.Settings != (v1.QueueSettings{}) || q.Unclaimed != 1 {
		t.Fatalf("got %+v", q)
	}
	g.submit("b", "t")
}

func TestBadQueueSettings(t *testing.T) {
	g := newRig(t)
	for body, want := range map[string]struct{ member, say string }{
		`{"maxRunning":-1}`:                        {"/maxRunning", "maxRunning is -1"},
		`{"maxRunningPerGroup":-1}`:                {"/maxRunningPerGroup", "from 0"},
		`{"maxRunning":9223372036854775808}`:       {"/maxRunning", "64 bits"},
		`{"maxRunning":1.5}`:                       {"/maxRunning", "64 bits"},
		`{"ratePerSecond":0}`:                      {"/ratePerSecond", "null for no limit"},
		`{"ratePerSecond":-0.5}`:                   {"/ratePerSecond", "0.001"},
		`{"ratePerSecond":0.0009}`:                 {"/ratePerSecond", "0.001"},
		`{"ratePerSecond":1000000.1}`:              {"/ratePerSecond", "1000000"},
		`{"ratePerSecond":1e300}`:                  {"/ratePerSecond", "1000000"},
		`{"ratePerSecond":1e999}`:                  {"/ratePerSecond", "want a number"},
		`{"ratePerSecond":"NaN"}`:                  {"/ratePerSecond", "want a number"},
		`{"ratePerSecond":NaN}`:                    {"", "not valid JSON"},
		`{"burst":0}`:                              {"/burst", "from 1 to 1000000"},
		`{"burst":1000001}`:                        {"/burst", "from 1 to 1000000"},
		`{"leaseMs":-1}`:                           {"/leaseMs", "leaseMs"},
		`{"leaseMs":86400001}`:                     {"/leaseMs", "86400000"},
		`{"timeoutMs":9223372036854775807}`:        {"/timeoutMs", "timeoutMs"},
		`{"maxAttempts":-1}`:                       {"/maxAttempts", "maxAttempts"},
		`{"maxAttempts":2147483648}`:               {"/maxAttempts", "2147483647"},
		`{"retainMs":-1}`:                          {"/retainMs", "retainMs"},
		`{"retainCount":-1}`:                       {"/retainCount", "retainCount"},
		`{"maxJobs":-1}`:                           {"/maxJobs", "maxJobs"},
		`{"maxBytes":-1}`:                          {"/maxBytes", "maxBytes"},
		`{"maxPayload":-1}`:                        {"/maxPayload", "maxPayload"},
		`{"maxPayload":true}`:                      {"/maxPayload", "want a whole number"},
		`{"paused":1}`:                             {"/paused", "want true or false"},
		`{"backoff":{}}`:                           {"/backoff/kind", "backoff.kind"},
		`{"backoff":{"kind":"square"}}`:            {"/backoff/kind", "exponential"},
		`{"backoff":{"kind":"fixed"}}`:             {"/backoff/baseMs", "baseMs"},
		`{"backoff":{"kind":"none","jitter":101}}`: {"/backoff/jitter", "from 0 to 100"},
		`{"maxRunning":1,"burst":-7}`:              {"/burst", "burst is -7"},
		`[]`:                                       {"", "JSON object"},
	} {
		p := refused(t, g.do("PATCH", "/v1/queues/t", body), http.StatusBadRequest, v1.TagBadRequest)
		if !strings.Contains(p.Detail, want.say) || want.member != "" && !slices.Equal(p.Members, []string{want.member}) {
			t.Errorf("%s: members %q, detail %q", body, p.Members, p.Detail)
		}
	}
	p := refused(t, g.do("PATCH", "/v1/queues/t", `{"maxJob":1,"backoff":{"kind":"none","base":1}}`, "Prefer", v1.PreferStrict),
		http.StatusBadRequest, v1.TagUnknownMember)
	if fmt.Sprint(p.Members) != "[/maxJob /backoff/base]" {
		t.Errorf("members %q", p.Members)
	}
	if g.node.written() != 0 {
		t.Error("it was written all the same")
	}
	g.patch("t", `{}`)
	ok[v1.Queue](t, g.do("PATCH", "/v1/queues/t", `{"nope":1}`, "Prefer", "handling=lenient"))
	ok[v1.Queue](t, g.do("PATCH", "/v1/queues/t", `{"burst":2}`, "Content-Type", "application/merge-patch+json"))
	refused(t, g.do("PATCH", "/v1/queues/t", `{}`, "Content-Type", "application/json-patch+json"),
		http.StatusUnsupportedMediaType, v1.TagMediaType)
	refused(t, g.do("POST", "/v1/jobs", `{}`, "Content-Type", "application/merge-patch+json"),
		http.StatusUnsupportedMediaType, v1.TagMediaType)
}

// Jobs without a type have a queue too, and its name differs from that of every type.
func TestQueueNames(t *testing.T) {
	for jobType, name := range map[string]string{"": "~", "~": "~~", "~~": "~~~", "~a": "~~a", "a": "a", "a~": "a~", "a/b c%": "a%2Fb%20c%25"} {
		t.Run(name, func(t *testing.T) {
			g := newRig(t)
			if q := g.patch(name, `{"maxRunning":1}`); q.Type != jobType {
				t.Fatalf("the type of %s is %q", name, q.Type)
			}
			ok[v1.Enqueued](t, g.do("POST", "/v1/jobs", `{"type":"`+jobType+`"}`))
			q := g.queue(name)
			if q.Type != jobType || q.Unclaimed != 1 || q.Settings.MaxRunning != 1 {
				t.Fatalf("got %+v", q)
			}
			if read, known := v1.QueueType(v1.QueueName(jobType)); read != jobType || !known {
				t.Fatalf("%q is read as %q", v1.QueueName(jobType), read)
			}
		})
	}
	g := newRig(t)
	for _, name := range []string{"~a", "~%20"} {
		p := refused(t, g.do("GET", "/v1/queues/"+name, ""), http.StatusBadRequest, v1.TagBadRequest)
		if !strings.Contains(p.Detail, "write ~ for") {
			t.Errorf("detail %q", p.Detail)
		}
	}
	refused(t, g.do("GET", "/v1/queues/", ""), http.StatusNotFound, v1.TagNoRoute)
	long := strings.Repeat("x", 257)
	g.queue(long) // a document of others may have it
	for _, name := range []string{long, "a%00", "a%0Ab"} {
		refused(t, g.do("PATCH", "/v1/queues/"+name, `{}`), http.StatusBadRequest, v1.TagBadRequest)
		refused(t, g.do("POST", "/v1/queues/"+name+"/pause", ""), http.StatusBadRequest, v1.TagBadRequest)
	}
}

func TestQueuesAreListed(t *testing.T) {
	g := newRig(t)
	for i, jobType := range []string{"b", "", "é", "a", "b"} {
		g.submit(fmt.Sprint(i), jobType)
	}
	g.patch("c", `{"maxRunning":1}`)
	g.patch("b", `{"maxRunning":2}`)
	whole := ok[v1.QueueList](t, g.do("GET", "/v1/queues", ""))
	if got := queueTypes(whole.Queues); got != `"" "a" "b" "c" "é"` || whole.NextCursor != "" {
		t.Fatalf("got %s, next %q", got, whole.NextCursor)
	}
	if b := whole.Queues[2]; b.Unclaimed != 2 || b.Settings.MaxRunning != 2 {
		t.Fatalf("got %+v", b)
	}
	for limit := 1; limit <= 6; limit++ {
		var seen []v1.Queue
		cursor := ""
		for range 7 {
			page := ok[v1.QueueList](t, g.do("GET", fmt.Sprintf("/v1/queues?limit=%d&cursor=%s", limit, cursor), ""))
			seen = append(seen, page.Queues...)
			if cursor = page.NextCursor; cursor == "" {
				break
			}
			if len(page.Queues) != limit {
				t.Fatalf("a page of %d, not %d", len(page.Queues), limit)
			}
		}
		if queueTypes(seen) != queueTypes(whole.Queues) || cursor != "" {
			t.Fatalf("by %d: %s", limit, queueTypes(seen))
		}
	}
	// A cursor stays good when its type goes.
	first := ok[v1.QueueList](t, g.do("GET", "/v1/queues?limit=4", ""))
	ok[v1.Done](t, g.do("DELETE", "/v1/queues/c", ""))
	if rest := ok[v1.QueueList](t, g.do("GET", "/v1/queues?cursor="+first.NextCursor, "")); queueTypes(rest.Queues) != `"é"` {
		t.Fatalf("got %s", queueTypes(rest.Queues))
	}
	for _, query := range []string{"limit=0", "limit=x", "limit=-1", "cursor=%21", "cursor=AQ", "cursor=x"} {
		refused(t, g.do("GET", "/v1/queues?"+query, ""), http.StatusBadRequest, v1.TagBadRequest)
	}
	refused(t, g.do("GET", "/v1/queues?statsu=x", "", "Prefer", v1.PreferStrict), http.StatusBadRequest, v1.TagUnknownMember)
}

// The list has the type with the oldest available job first, or the one with most of them,
// whatever the size of the pages.
func TestQueuesInOrder(t *testing.T) {
	g := newRig(t)
	for i, jobType := range []string{"z", "y", "", "y", "x", "y", "x"} {
		g.node.tick(time.Second)
		g.submit(fmt.Sprint(i), jobType)
	}
	g.patch("idle", `{"maxRunning":1}`)
	g.patch("a", `{"maxRunning":1}`)
	for sort, want := range map[string]string{
		v1.SortType:          `"" "a" "idle" "x" "y" "z"`,
		v1.SortOldestAt:      `"z" "y" "" "x" "a" "idle"`,
		v1.SortMostUnclaimed: `"y" "x" "" "z" "a" "idle"`,
	} {
		for limit := 1; limit <= 7; limit++ {
			var seen []v1.Queue
			for cursor := ""; ; {
				page := ok[v1.QueueList](t, g.do("GET", fmt.Sprintf("/v1/queues?sort=%s&limit=%d&cursor=%s", sort, limit, cursor), ""))
				seen = append(seen, page.Queues...)
				if cursor = page.NextCursor; cursor == "" || len(seen) > 6 {
					break
				}
			}
			if got := queueTypes(seen); got != want {
				t.Errorf("%s by %d: %s, not %s", sort, limit, got, want)
			}
		}
		next := ok[v1.QueueList](t, g.do("GET", "/v1/queues?limit=2&sort="+sort, "")).NextCursor
		for _, other := range []string{v1.SortType, v1.SortOldestAt, v1.SortMostUnclaimed} {
			if other != sort {
				refused(t, g.do("GET", "/v1/queues?sort="+other+"&cursor="+next, ""), http.StatusBadRequest, v1.TagBadRequest)
			}
		}
	}
	for _, query := range []string{"sort=created", "sort=oldestAt&cursor=bw", "sort=oldestAt&cursor=%21"} {
		refused(t, g.do("GET", "/v1/queues?"+query, ""), http.StatusBadRequest, v1.TagBadRequest)
	}
}

func queueTypes(queues []v1.Queue) string {
	var out []string
	for _, q := range queues {
		out = append(out, fmt.Sprintf("%q", q.Type))
	}
	return strings.Join(out, " ")
}

func TestTooManyQueues(t *testing.T) {
	g := newRig(t)
	g.fillQueues()
	p := refused(t, g.do("POST", "/v1/queues/t/pause", ""), http.StatusInsufficientStorage, v1.TagTooManyQueues)
	if p.Committed != v1.CommittedNo {
		t.Fatalf("problem %+v", p)
	}
	ok[v1.Queue](t, g.do("POST", "/v1/queues/7/pause", ""))
	ok[v1.Done](t, g.do("DELETE", "/v1/queues/7", ""))
	ok[v1.Queue](t, g.do("POST", "/v1/queues/t/pause", ""))
}

// fillQueues gives settings to as many types as can have some.
func (g *rig) fillQueues() {
	g.t.Helper()
	ms := make([]*fsmpb.Mutation, 10_000)
	for i := range ms {
		ms[i] = setQueueOf(&fsmpb.SetQueue{Name: fmt.Sprint(i)})
	}
	if _, _, err := g.node.apply(ms...); err != nil {
		g.t.Fatal(err)
	}
}

// The history has the minutes that are asked for, of one type or of all.
func TestHistory(t *testing.T) {
	g := newRig(t)
	for _, body := range []string{`{"type":"a"}`, `{"type":"a"}`, `{"type":"b"}`, `{}`} {
		ok[v1.Enqueued](t, g.do(http.MethodPost, v1.PathJobs, body))
	}
	for query, want := range map[string]uint64{"": 4, "?type=a": 2, "?type=b&minutes=1440": 1, "?type=~&minutes=1": 1, "?type=c": 0} {
		h := ok[v1.History](t, g.do(http.MethodGet, v1.PathHistory+query, ""))
		if got := h.Minutes[len(h.Minutes)-1].Enqueued; got != want {
			t.Errorf("%s: %d jobs in the last minute, want %d", query, got, want)
		}
	}
	for _, query := range []string{"?minutes=0", "?minutes=1441", "?minutes=x", "?type=~x"} {
		refused(t, g.do(http.MethodGet, v1.PathHistory+query, ""), http.StatusBadRequest, v1.TagBadRequest)
	}
}
