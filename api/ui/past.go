package ui

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "osqueue/client/api/v1"
)

// pastPath and a time in ms are the path, below Root, of the pages about an earlier state.
const pastPath = "/at/"

// pastBase returns the base of the pages of a time.
func pastBase(ms int64) string { return Root + pastPath + strconv.FormatInt(ms, 10) + "/" }

// pastKey is the key of the time, in ms, in the context of a request for an earlier state.
type pastKey struct{}

// pastPages returns the handler of the views at an earlier time. A view that only exists for
// the present leads there.
func (h *handler) pastPages() http.Handler {
	mux := http.NewServeMux()
	for pattern, show := range h.views() {
		if !slices.Contains(notInPast, pattern) {
			mux.HandleFunc("GET "+pattern, h.handle(show))
		}
	}
	for _, pattern := range notInPast {
		mux.HandleFunc("GET "+pattern, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, Root+r.URL.EscapedPath(), http.StatusSeeOther) //nolint:gosec // Root makes it a path of this node
		})
	}
	mux.HandleFunc("/", h.handle(notFound))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		given := r.PathValue("ms")
		ms, err := strconv.ParseInt(given, 10, 64)
		u, errPath := url.ParseRequestURI(strings.TrimPrefix(r.URL.EscapedPath(), Root+pastPath+given))
		if err != nil || errPath != nil || ms <= 0 {
			h.handle(notFound)(w, r)
			return
		}
		inner := r.Clone(context.WithValue(r.Context(), pastKey{}, ms))
		inner.URL.Path, inner.URL.RawPath = u.Path, u.RawPath
		mux.ServeHTTP(w, inner)
	})
}

// shownTime returns the time of the state that the page shows.
func (q *request) shownTime() time.Time {
	if q.at != 0 {
		return time.UnixMilli(q.at)
	}
	return time.Now()
}

// slide is the range of a slider, in ms.
type slide struct{ From, To, Step, At int64 }

// slideLength is the time that a slider shows, and slideStep its step.
const (
	slideLength = 24 * time.Hour
	slideStep   = time.Minute
)

// jump is a link to the same page at another time.
type jump struct{ Text, Name, Path string }

type pastData struct {
	Spans   []v1.PastSpan // newest first
	Slide   *slide
	Jumps   []jump
	Problem string
}

// past leads to the pages of a time, and shows which times there are.
func past(q *request) error {
	given := q.r.URL.Query()
	if text := strings.TrimSpace(given.Get("at")); text != "" {
		ms, err := timeOf(text)
		if err != nil {
			return err
		}
		return q.redirect(pastBase(ms))
	}
	if given.Has("ms") {
		return q.toPast(given.Get("ms"), given.Get("to"))
	}
	wall := time.Now().UnixMilli()
	at := wall
	if ms, err := strconv.ParseInt(given.Get("from"), 10, 64); err == nil {
		at = ms
	}
	d := pastData{}
	var kept v1.Past
	var refused *apiError
	switch err := q.get(v1.PathPast, nil, &kept); {
	case errors.As(err, &refused) && refused.Status != http.StatusUnauthorized && refused.Status != http.StatusForbidden:
		d.Problem = refused.Title + ": " + refused.Detail
	case err != nil:
		return err
	}
	d.Spans, d.Slide, d.Jumps = kept.Spans, slideOf(&kept, wall, at), jumps(&kept, wall, wall, "")
	slices.Reverse(d.Spans)
	return q.render("past", "Past", "past", &d)
}

// timeOf returns the time in UTC, in ms, that a text names.
func timeOf(text string) (int64, error) {
	for _, layout := range []string{"2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02T15:04", time.RFC3339} {
		if t, err := time.Parse(layout, strings.TrimSuffix(text, " UTC")); err == nil {
			return t.UnixMilli(), nil
		}
	}
	return 0, &apiError{Status: http.StatusBadRequest, Title: "The time cannot be read", Detail: strconv.Quote(text) + ": write it as in 2026-12-24 18:00."}
}

// toPast leads to a page at a time. The path is one of the dashboard: it stays below the base.
func (q *request) toPast(ms, rel string) error {
	at, err := strconv.ParseInt(ms, 10, 64)
	if err != nil || at <= 0 {
		return &apiError{Status: http.StatusBadRequest, Title: "The time cannot be read", Detail: strconv.Quote(ms) + " is not a time in milliseconds."}
	}
	u, err := url.Parse("/" + strings.TrimLeft(rel, "/"))
	if err != nil || path.Clean(u.Path) != strings.TrimSuffix(u.Path, "/") {
		u = &url.URL{Path: "/"}
	}
	return q.redirect(strings.TrimSuffix(pastBase(at), "/") + u.RequestURI())
}

// slideOf returns the slider over the last part of the kept history, or nil.
func slideOf(kept *v1.Past, wall, at int64) *slide {
	step := slideStep.Milliseconds()
	from := wall - slideLength.Milliseconds()
	if len(kept.Spans) == 0 {
		return nil
	}
	if first := kept.Spans[0]; first.From > from {
		from = (first.From + step - 1) / step * step
	}
	to := wall / step * step
	if from >= to { // a young queue
		from, step = kept.Spans[0].From, 1000
		to = max(from, (wall-from)/step*step+from)
	}
	from += (to - from) % step
	return &slide{From: from, To: to, Step: step, At: min(max(at, from), to)}
}

// jumps returns links to the times around at that are kept.
func jumps(kept *v1.Past, at, wall int64, rel string) (links []jump) {
	for _, by := range []struct {
		sign, name, word string
		d                time.Duration
	}{
		{"−", "1 h", " earlier", -time.Hour},
		{"−", "10 min", " earlier", -10 * time.Minute},
		{"−", "1 min", " earlier", -time.Minute},
		{"+", "1 min", " later", time.Minute},
		{"+", "10 min", " later", 10 * time.Minute},
		{"+", "1 h", " later", time.Hour},
	} {
		to := at + by.d.Milliseconds()
		if by.d > 0 && to < wall || by.d < 0 && len(kept.Spans) > 0 && to >= kept.Spans[0].From {
			links = append(links, jump{by.sign + by.name, by.name + by.word, pastBase(to) + rel})
		}
	}
	return links
}

// showSlide fills in the ways to other times.
func (q *request) showSlide(p *page) {
	var kept v1.Past
	if q.get(v1.PathPast, nil, &kept) == nil { // otherwise without slider
		p.Slide = slideOf(&kept, p.Wall, q.at)
	}
	p.Jumps = jumps(&kept, q.at, p.Wall, p.Rel)
}
