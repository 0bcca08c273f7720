package client

import (
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	v1 "osqueue/client/api/v1"
)

// After the cluster came back from the bucket, a read of the client's own writes says
// so once; the next ones are answered.
func TestReadsAfterTheLSNWasLost(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		if r.URL.Query().Has(v1.ParamMinLSN) {
			w.WriteHeader(http.StatusGone)
			_, _ = w.Write([]byte(`{"_tag":"` + v1.TagLSNGone + `","status":410}`))
			return
		}
		w.Header().Set(v1.HeaderLSN, "2-1")
		_, _ = w.Write([]byte(`{}`))
	}))
	defer s.Close()
	c, err := New(Config{Servers: []string{s.URL}, Reads: ReadOwnWrites})
	check(t, err)
	defer c.Close()
	for i, lost := range []bool{false, true, false} {
		if _, err := c.Stats(bounded(t)); HasTag(err, v1.TagLSNGone) != lost || err != nil && !lost {
			t.Errorf("read %d: %v", i, err)
		}
	}
}

// The largest values stand for "no limit". None must turn over into its contrary.
func TestLimitsThatAreNone(t *testing.T) {
	c := newCluster(t)
	cl := c.client(func(cfg *Config) {
		cfg.AttemptTimeout, cfg.RetryFor, cfg.AckWait = math.MaxInt64, -1, math.MaxInt64
		cfg.MaxAnswerBytes = math.MaxInt64
	})
	c.script("POST "+v1.PathClaim, `{"jobs":[{"jobId":"j","token":7}]}`)
	jobs, err := cl.Claim(bounded(t), ClaimOptions{Worker: "w", Wait: math.MaxInt64, Lease: math.MaxInt64})
	if err != nil || len(jobs) != 1 {
		t.Errorf("%v, %v", jobs, err)
	}
	if _, err := cl.Enqueue(WithAck(bounded(t), AckObject), NewJob{}); err != nil {
		t.Error(err)
	}
}

func TestLongTimesOnTheWire(t *testing.T) {
	const most = math.MaxInt64
	for d, ms := range map[time.Duration]int64{
		0: 0, 1: 1, time.Millisecond: 1, time.Millisecond + 1: 2, most: most / int64(time.Millisecond),
	} {
		if got := inMilliseconds(d); got != ms {
			t.Errorf("%v is sent as %d ms", d, got)
		}
	}
	for ms, d := range map[int64]time.Duration{
		0: 0, 1: time.Millisecond, most / 1_000_000: most / 1_000_000 * time.Millisecond,
		most / 1_000: most, 18_446_744_073_710: most, most: most, -most: -most,
	} {
		if got := milliseconds(ms); got/time.Millisecond != d/time.Millisecond {
			t.Errorf("%d ms are read as %v, want %v", ms, got, d)
		}
	}
	odd := claimedJob(v1.ClaimedJob{LeaseMs: most, LeaseAgeMs: -most, TimeoutMs: 18_446_744_073_710}, "w")
	if year := 366 * 24 * time.Hour; odd.Length < year || odd.Age != 0 || odd.Timeout < year {
		t.Errorf("%+v", odd)
	}
}

func TestListOptionsInAQuery(t *testing.T) {
	at := time.UnixMilli(1_700_000_000_000)
	got := ListOptions{Newest: true, Search: "a b&c", FinishedFrom: at, FinishedBefore: at.Add(time.Second), Limit: 5}.query()
	want := url.Values{
		v1.ParamSort: {v1.SortNewest}, v1.ParamSearch: {"a b&c"}, v1.ParamLimit: {"5"},
		v1.ParamFinishedFrom: {"1700000000000"}, v1.ParamFinishedBefore: {"1700000001000"},
	}
	if got.Encode() != want.Encode() {
		t.Errorf("%v, want %v", got, want)
	}
}

// The counts of all parts are added up.
func TestCountJobs(t *testing.T) {
	asked := []string{}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != v1.PathCount {
			http.NotFound(w, r)
			return
		}
		asked = append(asked, r.URL.RawQuery)
		w.Header().Set("Content-Type", "application/json")
		next := map[string]string{"": `"nextCursor":"a",`, "a": `"nextCursor":"b",`}[r.URL.Query().Get(v1.ParamCursor)]
		fmt.Fprintf(w, `{"count":%d,%s"lsn":"1-1"}`, len(asked), next)
	}))
	defer srv.Close()
	c, err := New(Config{Servers: []string{srv.URL}})
	check(t, err)
	defer c.Close()
	n, err := c.CountJobs(t.Context(), ListOptions{Search: "x", Newest: true})
	if err != nil || n != 6 || len(asked) != 3 || asked[2] != "cursor=b&search=x" {
		t.Errorf("%d, %v, %q", n, err, asked)
	}
}
