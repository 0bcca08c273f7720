package limit_test

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"osqueue/internal/limit"
)

func TestBudget(t *testing.T) {
	const kib = 1 << 10
	b := limit.NewBudget(10 * kib)
	one, two, small := b.Hold(), b.Hold(), b.Hold()
	if err := one.Take(7 * kib); err != nil || b.Used() != 7*kib {
		t.Fatalf("%v; %d used", err, b.Used())
	}
	if err := two.Take(5 * kib); !errors.Is(err, limit.ErrOver) || b.Used() != 7*kib {
		t.Fatalf("beyond the budget: %v; %d used", err, b.Used())
	}
	two.Force(5 * kib)
	if err := one.Take(1); !errors.Is(err, limit.ErrOver) {
		t.Errorf("took more: %v", err)
	}
	if err := errors.Join(small.Take(3*kib), small.Take(1*kib)); err != nil {
		t.Errorf("a small request: %v", err)
	}
	if err := small.Take(1); !errors.Is(err, limit.ErrOver) {
		t.Errorf("a small request that grows: %v", err)
	}
	for range 2 {
		one.Release()
		two.Release()
		small.Release()
	}
	if b.Used() != 0 {
		t.Errorf("%d used at the end", b.Used())
	}
}

// A body is whole, and takes its memory from the budget.
func TestReadAll(t *testing.T) {
	text := strings.Repeat("body ", 3000)
	b := limit.NewBudget(32 << 10)
	one, two := b.Hold(), b.Hold()
	got, err := one.ReadAll(iotest.OneByteReader(strings.NewReader(text)))
	if err != nil || string(got) != text || b.Used() != int64(cap(got)) {
		t.Fatalf("%d bytes, %v; %d used of %d", len(got), err, b.Used(), cap(got))
	}
	one.Release()
	broken := io.MultiReader(strings.NewReader(text), iotest.ErrReader(io.ErrUnexpectedEOF))
	if got, err := one.ReadAll(broken); !errors.Is(err, io.ErrUnexpectedEOF) || string(got) != text {
		t.Errorf("a body that breaks off: %d bytes, %v", len(got), err)
	}
	if got, err := two.ReadAll(strings.NewReader(text + text)); !errors.Is(err, limit.ErrOver) || got != nil {
		t.Errorf("beyond the budget: %d bytes, %v", len(got), err)
	}
}

func TestNoBudget(t *testing.T) {
	var b *limit.Budget
	h := b.Hold()
	h.Force(1 << 40)
	if err := h.Take(1 << 40); err != nil || b.Used() != 0 {
		t.Errorf("%v, %d used", err, b.Used())
	}
	h.Release()
}
