package dtq

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

func TestHandouts(t *testing.T) {
	now := time.Now()
	later := func(s int) time.Time { return now.Add(time.Duration(s) * time.Second) }
	all := []string{"a", "b"}
	for name, c := range map[string]struct {
		play func(h *handouts)
		want []string
	}{
		"never asked here":    {func(*handouts) {}, all},
		"given, and one more": {func(h *handouts) { h.given("a", "w", now); h.review("w", all[:1]); h.given("b", "w", later(1)) }, all},
		"b's answer was lost": {func(h *handouts) { h.given("a", "w", now); h.review("w", all) }, []string{"a"}},
		"began anew":          {func(h *handouts) { h.given("a", "w", now); h.given("b", "w", now); h.registered("w", later(1)) }, all},
		"began anew, and asked": {func(h *handouts) {
			h.given("a", "w", now)
			h.registered("w", later(1))
			h.given("b", "w", later(2))
			h.review("w", all)
		}, []string{"b"}},
		"another began anew": {func(h *handouts) {
			h.given("a", "w", now)
			h.given("b", "w", now)
			h.registered("x", later(1))
			h.review("w", all)
		}, all},
		"the report failed":     {func(h *handouts) { h.given("a", "w", now); h.given("b", "w", now); h.over("a"); h.review("w", all) }, []string{"b"}},
		"given to another":      {func(h *handouts) { h.given("a", "x", now); h.given("b", "w", now); h.review("w", all) }, []string{"b"}},
		"lost on another":       {func(h *handouts) { h.review("x", all) }, all},
		"lost, and given again": {func(h *handouts) { h.review("w", all); h.given("a", "w", later(1)) }, []string{"a"}},
	} {
		h := newHandouts()
		c.play(h)
		if got := h.renewable("w", all); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v are renewed, want %v", name, got, c.want)
		}
	}
}

func TestRecent(t *testing.T) {
	r := recent[int]{size: 10}
	for i := range 1000 {
		r.put(fmt.Sprint(i), i)
		if v, ok := r.get("0"); !ok || v != 0 {
			t.Fatalf("0 is in use, and was forgotten at %d", i)
		}
		if n := len(r.young) + len(r.old); n > 20 {
			t.Fatalf("%d entries", n)
		}
	}
	if v, ok := r.get("999"); !ok || v != 999 {
		t.Error("the last one was forgotten")
	}
	if _, ok := r.get("900"); ok {
		t.Error("an old one is still there")
	}
	r.drop("999")
	if _, ok := r.get("999"); ok {
		t.Error("what was dropped is there")
	}
}
