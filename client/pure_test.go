package client

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	v1 "osqueue/client/api/v1"
)

func TestJudge(t *testing.T) {
	ours := problem{ours: true, tag: "x", committed: CommittedNo}
	unsure := problem{ours: true, tag: "x", committed: CommittedUnknown}
	cases := []struct {
		name string
		o    outcome
		want verdict
	}{
		{"success", outcome{status: 204}, verdict{done: true}},
		{"not sent", outcome{err: errSlow}, verdict{again: true, moved: true}},
		{"sent", outcome{err: errSlow, sent: true}, verdict{again: true, moved: true, unknown: true}},
		{"too large", outcome{err: errLarge, sent: true}, verdict{unknown: true}},
		{"redirect", outcome{status: 307}, verdict{again: true, moved: true}},
		{"refusal", outcome{status: 400, problem: ours}, verdict{}},
		{"refusal of unknown outcome", outcome{status: 409, problem: unsure}, verdict{unknown: true}},
		{"TLS is needed", outcome{status: 400, problem: problem{wantsTLS: true}}, verdict{}},
		{"no such job", outcome{status: 404, problem: ours}, verdict{}},
		{"too many", outcome{status: 429, problem: ours}, verdict{again: true}},
		{"a bug", outcome{status: 500, problem: ours}, verdict{}},
		{"a bug in the middle", outcome{status: 500, problem: unsure}, verdict{again: true, unknown: true}},
		{"not implemented", outcome{status: 501, problem: ours}, verdict{}},
		{"bad gateway", outcome{status: 502}, verdict{again: true, moved: true, unknown: true}},
		{"no leader", outcome{status: 503, problem: ours}, verdict{again: true, moved: true}},
		{"full disk", outcome{status: 507, problem: ours}, verdict{again: true}},
	}
	for _, status := range []int{400, 401, 403, 404, 405, 409, 413, 421, 429, 451, 500, 501, 502, 503, 505} { // of a stranger
		want := verdict{again: true, moved: true, unknown: true}
		if got := judge(outcome{status: status}, time.Now()); got != want {
			t.Errorf("%d of a stranger: %+v, want %+v", status, got, want)
		}
	}
	for _, c := range cases {
		if got := judge(c.o, time.Now()); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	cases := []struct {
		text string
		ms   time.Duration
		want time.Duration
	}{
		{"", 0, 0},
		{"2", 0, 2 * time.Second},
		{"2", 150 * time.Millisecond, 150 * time.Millisecond},
		{"-3", 0, 0},
		{"soon", 0, 0},
		{"99999999999999999999", 0, 0},
		{"99999999", 0, time.Minute},
		{"", time.Hour, time.Minute},
		{now.Add(5 * time.Second).Format(http.TimeFormat), 0, 5 * time.Second},
		{now.Add(-5 * time.Second).Format(http.TimeFormat), 0, 0},
	}
	for _, c := range cases {
		o := outcome{retry: c.text, problem: problem{after: c.ms}}
		if got := o.retryAfter(now); got != c.want {
			t.Errorf("%q, %v: %v, want %v", c.text, c.ms, got, c.want)
		}
	}
}

func TestBestView(t *testing.T) {
	cases := []struct {
		name  string
		views []view
		seen  uint64
		want  string
		reads int
	}{
		{"nobody", []view{{server: "a", term: 3}, {server: "b", err: errSlow}}, 0, "", 2},
		{"at once", []view{{server: "a", leader: true, term: 3}, {server: "b", term: 3}}, 3, "a", 1},
		{"behind what was seen before", []view{{server: "a", leader: true, term: 3}, {server: "b", leader: true, term: 4}}, 4, "b", 2},
		{"behind another answer", []view{{server: "b", term: 4}, {server: "a", leader: true, term: 3}, {server: "c", leader: true, term: 4}}, 0, "c", 3},
		{"a new cluster", []view{{server: "a", leader: true, term: 1}, {server: "b", term: 1}}, 9, "a", 2},
	}
	for _, c := range cases {
		views := make(chan view, len(c.views))
		for _, v := range c.views {
			views <- v
		}
		got, _ := bestView(views, len(c.views), c.seen)
		if got.server != c.want || got.leader != (c.want != "") || len(views) != len(c.views)-c.reads {
			t.Errorf("%s: %+v with %d left unread", c.name, got, len(views))
		}
	}
}

func TestServers(t *testing.T) {
	cl, err := New(Config{Servers: []string{" a:1", "http://a:1/", "https://b", "", "[::1]:8080", "http://c/osq/"}})
	check(t, err)
	defer cl.Close()
	want := []string{"http://a:1", "https://b", "http://[::1]:8080", "http://c/osq"}
	if got := cl.Servers(); !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
	for _, bad := range [][]string{nil, {" "}, {"ftp://x"}, {"http://"}, {"http://a?b=c"}, {"a b:1"}, {"http://a:port"}} {
		if _, err := New(Config{Servers: bad}); err == nil {
			t.Errorf("%v was taken", bad)
		}
	}
}

func TestLSNMarkNeverGoesBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var m lsnMark
		var term, index uint64
		for range rapid.IntRange(0, 20).Draw(t, "notes") {
			a, b := rapid.Uint64Range(0, 3).Draw(t, "term"), rapid.Uint64Range(0, 3).Draw(t, "index")
			m.note(fmt.Sprintf("%d-%d", a, b))
			if a > term || (a == term && b > index) {
				term, index = a, b
			}
		}
		want := fmt.Sprintf("%d-%d", term, index)
		if term == 0 && index == 0 {
			want = ""
		}
		if got := m.String(); got != want {
			t.Fatalf("%q, want %q", got, want)
		}
	})
}

func FuzzParseLSN(f *testing.F) {
	for _, s := range []string{"", "1-2", "1-2-3", "-1-2", "18446744073709551616-1", "a-b", "+1-1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		term, index, ok := parseLSN(s)
		if !ok {
			return
		}
		var m lsnMark
		m.note(s)
		if got := m.String(); got != fmt.Sprintf("%d-%d", term, index) && term+index > 0 {
			t.Errorf("%q became %q", s, got)
		}
	})
}

func FuzzReadProblem(f *testing.F) {
	for _, s := range []string{"", "null", "{}", `{"_tag":"x","detail":"d","committed":"no"}`, `{"_tag":1}`, "<html>"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if p := readProblem(body); !p.ours && p != (problem{}) {
			t.Errorf("%+v", p)
		}
	})
}

func TestErrorTexts(t *testing.T) {
	cases := []struct {
		e    Error
		want string
	}{
		{Error{Op: "claim", Status: 502}, "claim: the server answered 502 Bad Gateway"},
		{Error{Op: "claim", Status: 502, Err: errSlow}, "claim: the server answered 502 Bad Gateway"},
		{Error{Op: "claim", Status: 200, Err: errSlow}, "claim: no answer in time"},
		{Error{Op: "claim", Status: 400, Message: "no"}, "claim: no"},
		{Error{Op: "claim", Err: errSlow}, "claim: no answer in time"},
		{Error{Op: "claim"}, "claim: failed"},
		{
			Error{Op: "claim", Committed: CommittedUnknown, Tried: []Try{{"a", errSlow}, {"b", errGone}}},
			"claim: no server could be reached: a: no answer in time; b: another node leads now (it is not known whether it took effect)",
		},
	}
	for _, c := range cases {
		if got := c.e.Error(); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
	if IsLeaseLost(errSlow) || IsNotFound(nil) || !IsNotFound(&Error{Tag: v1.TagNotFound}) {
		t.Error("wrong kind")
	}
	if !errors.Is(&Error{Err: errSlow}, errSlow) {
		t.Error("the cause is hidden")
	}
}
