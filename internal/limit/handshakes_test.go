package limit_test

import (
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"osqueue/internal/limit"
)

// Many handshakes at once, and clients that stop in the middle of one: few are worked on at the
// same time, and all that continue end well.
func TestHandshakesAreBounded(t *testing.T) {
	var now, most atomic.Int32
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	s.Listener = limit.Handshakes(s.Listener)
	s.TLS = &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		n := now.Add(1)
		defer now.Add(-1)
		for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
			continue
		}
		time.Sleep(2 * time.Millisecond)
		return nil, nil
	}}
	s.StartTLS()
	defer s.Close()
	for range 8 { // a client that begins a record, and one that does not answer
		begun, err := net.Dial("tcp", s.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer begun.Close()
		if _, err := begun.Write([]byte("\x16\x03\x01\x02\x00\x01")); err != nil {
			t.Fatal(err)
		}
		silent, err := net.Dial("tcp", s.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer silent.Close()
		mute := tls.Client(muted{silent}, &tls.Config{InsecureSkipVerify: true})
		go func() { _ = mute.Handshake() }()
	}
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			resp, err := s.Client().Get(s.URL)
			if err != nil {
				t.Error(err)
				return
			}
			_ = resp.Body.Close()
		})
	}
	wg.Wait()
	if limit := int32(max(1, runtime.GOMAXPROCS(0)/2)); most.Load() > limit {
		t.Errorf("%d handshakes at the same time, want %d at most", most.Load(), limit)
	}
}

// muted is a connection that never reads.
type muted struct{ net.Conn }

func (muted) Read([]byte) (int, error) { select {} }
