package cluster

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func watched(t *testing.T) (d *watchdog, bites <-chan error) {
	c := make(chan error, 10)
	d = &watchdog{limit: time.Second, bite: func(err error) { c <- err }}
	stop := make(chan struct{})
	go d.run(stop)
	t.Cleanup(func() { close(stop) })
	return d, c
}

func TestWatchdogBitesWhenAWriteHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, bites := watched(t)
		release := make(chan struct{})
		go d.watch("append", func() error { <-release; return nil })
		time.Sleep(900 * time.Millisecond)
		if len(bites) > 0 {
			t.Fatal("it bit before its limit")
		}
		time.Sleep(300 * time.Millisecond)
		if len(bites) != 1 {
			t.Fatal("it did not bite")
		}
		close(release)
	})
}

func TestWatchdogLetsManyShortWritesPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, bites := watched(t)
		for range 100 { // a write is under way at every look, and never the same one
			if err := d.watch("append", func() error { time.Sleep(150 * time.Millisecond); return nil }); err != nil {
				t.Fatal(err)
			}
		}
		if len(bites) > 0 {
			t.Fatal(<-bites)
		}
	})
}

func TestWatchdogBitesWhenAWriteFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, bites := watched(t)
		full := errors.New("no space left")
		if err := d.watch("append", func() error { return full }); !errors.Is(err, full) {
			t.Fatal(err)
		}
		if err := <-bites; !errors.Is(err, full) {
			t.Fatal(err)
		}
	})
}
