package client

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	v1 "osqueue/client/api/v1"
)

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
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	n, err := c.CountJobs(t.Context(), ListOptions{Search: "x", Newest: true})
	if err != nil || n != 6 || len(asked) != 3 || asked[2] != "cursor=b&search=x" {
		t.Errorf("%d, %v, %q", n, err, asked)
	}
}
