package limit_test

import (
	"errors"
	"sync"
	"testing"

	"osqueue/internal/limit"
)

func TestOneClientCannotTakeAll(t *testing.T) {
	l := limit.NewSlots(4, 0)
	for i, c := range []struct {
		client string
		want   error
	}{{"a", nil}, {"a", nil}, {"a", limit.ErrClient}, {"b", nil}, {"c", nil}, {"d", limit.ErrTotal}, {"a", limit.ErrTotal}} {
		if err := l.Enter(c.client); !errors.Is(err, c.want) {
			t.Errorf("step %d: %s gets %v, want %v", i, c.client, err, c.want)
		}
	}
	l.Leave("a")
	if err := l.Enter("d"); err != nil {
		t.Error(err)
	}
	if err := l.Enter("d"); !errors.Is(err, limit.ErrTotal) || l.Taken() != 4 {
		t.Errorf("%v, %d are taken", err, l.Taken())
	}
}

func TestSharesUnderConcurrency(t *testing.T) {
	l := limit.NewSlots(8, 3)
	var wg sync.WaitGroup
	for _, client := range []string{"a", "b", "c", "d"} {
		for range 8 {
			wg.Go(func() {
				for range 1000 {
					if l.Enter(client) != nil {
						continue
					}
					if n := l.Taken(); n < 1 || n > 8 {
						t.Errorf("%d places are taken", n)
					}
					l.Leave(client)
				}
			})
		}
	}
	wg.Wait()
	if l.Taken() != 0 {
		t.Errorf("%d places are lost", l.Taken())
	}
}

func TestManyPlacesAreTakenTogether(t *testing.T) {
	l := limit.NewSlots(10, 6)
	for i, c := range []struct {
		client string
		n      int
		want   error
	}{{"a", 4, nil}, {"a", 3, limit.ErrClient}, {"a", 2, nil}, {"b", 5, limit.ErrTotal}, {"b", 4, nil}, {"c", 1, limit.ErrTotal}} {
		if err := l.EnterMany(c.client, c.n); !errors.Is(err, c.want) {
			t.Errorf("step %d: %s gets %v, want %v", i, c.client, err, c.want)
		}
	}
	l.LeaveMany("a", 4)
	if err := l.EnterMany("b", 3); !errors.Is(err, limit.ErrClient) || l.Taken() != 6 {
		t.Errorf("%v, %d are taken", err, l.Taken())
	}
}
