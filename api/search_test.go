package api

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	v1 "osqueue/client/api/v1"
)

// A page whose time is over ends early, and the next one continues: the pages together have
// every job once.
func TestPagesEndWhenTheirTimeIsOver(t *testing.T) {
	g := newRig(t)
	for range 3 * 16 {
		ok[v1.Enqueued](t, g.do("POST", "/v1/jobs", `{"type":"a"}`))
	}
	g.s.Config.Timeouts.List = -time.Second
	for _, sort := range []string{v1.SortOldest, v1.SortNewest} {
		seen, pages, next := map[string]bool{}, 0, ""
		for {
			ids, after := g.listed("?" + url.Values{v1.ParamSort: {sort}, v1.ParamCursor: {next}}.Encode())
			for _, id := range ids {
				seen[id] = true
			}
			if pages++; after == "" {
				break
			}
			next = after
		}
		if len(seen) != 3*16 || pages < 3 {
			t.Errorf("%s: %d jobs on %d pages", sort, len(seen), pages)
		}
	}
}

func TestBadSearches(t *testing.T) {
	g := newRig(t)
	for query, word := range map[string]string{
		"?sort=priority": "sort", "?search=" + strings.Repeat("x", 257): "search", "?finishedFrom=yesterday": "finishedFrom",
		"?sort=-created&cursor=" + "AQM": "cursor", "?cursor=" + "AwM": "cursor",
	} {
		for _, path := range []string{v1.PathJobs, v1.PathCount} {
			if a := g.do("GET", path+query, ""); a.status != http.StatusBadRequest || !strings.Contains(string(a.body), word) {
				t.Errorf("%s%s: %d %s", path, query, a.status, a.body)
			}
		}
	}
}
