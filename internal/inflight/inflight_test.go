package inflight_test

import (
	"errors"
	"io"
	"strings"
	"testing"

	"osqueue/internal/inflight"
)

func TestBudget(t *testing.T) {
	b := inflight.New(10)
	one, two := b.Hold(), b.Hold()
	got, err := io.ReadAll(one.Reader(strings.NewReader("seven b")))
	if err != nil || string(got) != "seven b" || b.Used() != 7 {
		t.Fatalf("read %q, %v; %d used", got, err, b.Used())
	}
	if _, err := io.ReadAll(two.Reader(strings.NewReader("four"))); !errors.Is(err, inflight.ErrOver) || b.Used() != 7 {
		t.Fatalf("beyond the budget: %v; %d used", err, b.Used())
	}
	two.Force(5)
	if err := one.Take(1); !errors.Is(err, inflight.ErrOver) {
		t.Errorf("took more: %v", err)
	}
	one.Release()
	one.Release()
	two.Release()
	if b.Used() != 0 {
		t.Errorf("%d used at the end", b.Used())
	}
}

func TestNoBudget(t *testing.T) {
	var b *inflight.Budget
	h := b.Hold()
	h.Force(1 << 40)
	if err := h.Take(1 << 40); err != nil || b.Used() != 0 {
		t.Errorf("%v, %d used", err, b.Used())
	}
	h.Release()
}
