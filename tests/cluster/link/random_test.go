package link

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"
)

// Under any change of conditions but a reset, every byte arrives once and in its
// order, in both directions at the same time.
func TestBytesStayWholeUnderRandomConditions(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 1))
			n := newNet(t)
			addr := here(t, n)
			conns := make([]*net.TCPConn, 4)
			for i := range conns { // with their handshakes done: they end their half while cut
				conns[i] = dial(t, addr).(*net.TCPConn)
				say(t, conns[i], "x")
				hear(t, conns[i], "x")
			}
			var wg, flows sync.WaitGroup
			stop := make(chan struct{})
			wg.Go(func() { disturb(rng, n, stop) })
			for i, c := range conns {
				data := make([]byte, 100_000+100_000*i)
				fill := rand.New(rand.NewPCG(seed, uint64(i)+2))
				for j := range data {
					data[j] = byte(fill.Uint32())
				}
				flows.Go(func() { goRound(t, fill, c, data) })
			}
			time.Sleep(time.Second) // of disturbance; the flows need not last that long
			close(stop)
			wg.Wait()
			n.Heal()
			flows.Wait()
			if c := n.Count(); !c.Harmed() {
				t.Errorf("nothing was disturbed: %v", c)
			}
		})
	}
}

// disturb changes conditions until stop.
func disturb(rng *rand.Rand, n *Net, stop <-chan struct{}) {
	var faults []*Fault
	links := []Link{toHere, fromHere, {}}
	for {
		select {
		case <-stop:
			return
		case <-time.After(time.Duration(rng.IntN(20)) * time.Millisecond):
		}
		if len(faults) > 3 || len(faults) > 0 && rng.IntN(2) == 0 {
			i := rng.IntN(len(faults))
			faults[i].Heal()
			faults = append(faults[:i], faults[i+1:]...)
			continue
		}
		c := []Condition{
			{Cut: true},
			{Delay: time.Duration(rng.IntN(30)) * time.Millisecond, Jitter: time.Duration(rng.IntN(30)) * time.Millisecond},
			{Rate: 1000 + rng.IntN(1_000_000)},
		}[rng.IntN(3)]
		faults = append(faults, n.Impose(c, links[rng.IntN(len(links))]))
	}
}

// goRound sends data in random pieces and wants it back.
func goRound(t *testing.T, rng *rand.Rand, c *net.TCPConn, data []byte) {
	_ = c.SetDeadline(time.Now().Add(30 * time.Second))
	sent := make(chan error, 1)
	go func() {
		for rest := data; len(rest) > 0; {
			time.Sleep(time.Duration(rng.IntN(4)) * time.Millisecond) // to last as long as the disturbance
			k := min(1+rng.IntN(5_000), len(rest))
			if _, err := c.Write(rest[:k]); err != nil {
				sent <- err
				return
			}
			rest = rest[k:]
		}
		sent <- c.CloseWrite()
	}()
	got, err := io.ReadAll(c)
	if err != nil {
		t.Errorf("after %d of %d bytes: %v", len(got), len(data), err)
	}
	if err := <-sent; err != nil {
		t.Error(err)
	}
	if !bytes.Equal(got, data) {
		t.Errorf("%d bytes came back of %d, and they differ", len(got), len(data))
	}
}
