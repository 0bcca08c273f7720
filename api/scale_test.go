package api

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	v1 "osqueue/client/api/v1"
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

// The figures of the types make the number, and settings bound it.
func TestScale(t *testing.T) {
	g := newRig(t)
	scale := func(query string) v1.Scale {
		t.Helper()
		return ok[v1.Scale](t, g.do("GET", "/v1/scale"+query, ""))
	}
	if got := scale("?types=mail"); got.Wanted != 0 || got.TargetMs != 60_000 || len(got.Types) != 1 || got.Types[0].RunMs != nil {
		t.Errorf("without jobs: %+v", got)
	}
	for i := range 41 {
		ok[v1.Enqueued](t, g.do("POST", "/v1/jobs", fmt.Sprintf(`{"id":"m%d","type":"mail"}`, i)))
	}
	ok[v1.Enqueued](t, g.do("POST", "/v1/jobs", `{"id":"u"}`))
	if got := scale("?types=mail,~"); got.Wanted != 2 || got.Types[0].Waiting != 41 || got.Types[0].Wanted != 1 || got.Types[1].Type != "~" || got.Types[1].Wanted != 1 {
		t.Errorf("without history: %+v", got)
	}
	j := g.claim1()
	g.node.set(func(f *fakeNode) { f.now += 3000 })
	ok[v1.Reported](t, g.do("POST", "/v1/jobs/m0/complete", fmt.Sprintf(`{"workerId":"w","token":%d}`, j.Token)))
	got := scale("?types=mail&target=60s") // 40 jobs of 3 s
	if got.Wanted != 2 || got.Types[0].RunMs == nil || *got.Types[0].RunMs != 3000 {
		t.Errorf("with history: %+v", got)
	}
	if got := scale("?types=mail&target=30s"); got.Wanted != 4 || got.TargetMs != 30_000 {
		t.Errorf("in half of the time: %+v", got)
	}
	if got := scale("?target=1h"); got.Wanted != 2 || got.Types != nil { // one each
		t.Errorf("all types: %+v", got)
	}
	ok[v1.Queue](t, g.do("POST", "/v1/queues/mail/pause", ""))
	if got := scale("?types=mail"); got.Wanted != 0 || got.Types[0].Waiting != 40 {
		t.Errorf("paused: %+v", got)
	}
	for query, want := range map[string]string{
		"?types=":          `has the name \"\"`,
		"?types=a,,b":      `has the name \"\"`,
		"?types=a,a":       "twice",
		"?types=a&types=b": "2 times",
		"?types=" + strings.Repeat("a,", 1000) + "b": "1001 names",
		"?types=a&target=60":                         "must be a duration",
		"?types=a&target=0s":                         "must be a duration",
		"?types=a&target=-1s":                        "must be a duration",
		"?types=a&target=25h":                        "must be a duration",
		"?target=" + strings.Repeat("9", 30) + "s":   "must be a duration",
	} {
		if p := refused(t, g.do("GET", "/v1/scale"+query, ""), http.StatusBadRequest, v1.TagBadRequest); !strings.Contains(p.Detail, strings.ReplaceAll(want, `\"`, `"`)) {
			t.Errorf("%.60s: %s", query, p.Detail)
		}
	}
}

// A reader of some types gets the number of these, and of no others.
func TestScaleOfAScope(t *testing.T) {
	g := newForeignRig(t)
	head := g.give(&fsmpb.Token{Role: uint32(fsm.RoleReader), Types: []string{"mail", "a.*"}})
	for query, want := range map[string]int{"?types=mail,a.b": 200, "?types=mail,secret": 403, "": 403, "?types=": 403} {
		if a := g.do("GET", "/v1/scale"+query, "", head...); a.status != want {
			t.Errorf("%s: %d %s", query, a.status, a.body)
		}
	}
}
