package measure

import (
	"errors"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestPercentiles(t *testing.T) {
	s := make(Samples, 0, 100)
	for i := 100; i > 0; i-- {
		s = append(s, time.Duration(i))
	}
	for p, want := range map[float64]time.Duration{0: 1, 50: 50, 99: 99, 100: 100} {
		if got := s.At(p); got != want {
			t.Errorf("percentile %v: %d, want %d", p, got, want)
		}
	}
	if got := (Samples{7}).At(99); got != 7 {
		t.Errorf("of one: %d", got)
	}
	if got := (Samples{}).At(50); got != 0 {
		t.Errorf("of none: %d", got)
	}
}

func TestProcessorTime(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs /proc")
	}
	before, err := ProcessorTime(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	const work = 100 * time.Millisecond
	for begin := time.Now(); time.Since(begin) < 50*work; {
		now, err := ProcessorTime(os.Getpid())
		if err != nil {
			t.Fatal(err)
		}
		if now-before >= work {
			return
		}
	}
	t.Errorf("less than %v used while it was busy for %v", work, 50*work)
}

func TestPSS(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs /proc")
	}
	if own, err := PSS(os.Getpid()); err != nil || own < 1<<20 {
		t.Errorf("PSS = %d, %v", own, err)
	}
	if _, err := ProcessorTime(-1); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("ProcessorTime of no process = %v", err)
	}
}

func TestOthers(t *testing.T) {
	begin := Busy{at: time.Now(), used: time.Hour}
	cores := time.Duration(runtime.NumCPU() * int(time.Second))
	end := Busy{at: begin.at.Add(10 * time.Second), used: time.Hour + 5*cores}
	for own, want := range map[time.Duration]float64{
		0:          0.5,
		cores:      0.4,
		50 * cores: 0, // clocks of different precision
	} {
		if got := begin.Others(end, own); got < want-0.001 || got > want+0.001 {
			t.Errorf("others with %v of our own = %v, want %v", own, got, want)
		}
	}
	if got := begin.Others(begin, 0); got != 0 {
		t.Errorf("others within no time = %v", got)
	}
}

// AwaitQuiet returns at the limit on a machine that is never quiet.
func TestAwaitQuietIsBounded(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs /proc")
	}
	began := time.Now()
	if _, err := AwaitQuiet(t.Context(), -1, time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("it waited %v", took)
	}
}

// A place runs its cleanup in reverse, once, and turns Fatal into an error.
func TestPlace(t *testing.T) {
	p, err := NewPlace("osqueue-measure-")
	if err != nil {
		t.Fatal(err)
	}
	var order []int
	p.Cleanup(func() { order = append(order, 1) })
	p.Cleanup(func() { order = append(order, 2) })
	if err := p.Guarded(func() error { p.Fatalf("no %s", "leader"); return nil }); err == nil || err.Error() != "no leader" || !p.Failed() {
		t.Errorf("Guarded = %v, failed %v", err, p.Failed())
	}
	p.Leave()
	p.Leave()
	if !slices.Equal(order, []int{2, 1}) {
		t.Errorf("cleanup ran in the order %v", order)
	}
	if _, err := os.Stat(p.TempDir()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory is still there: %v", err)
	}
}
