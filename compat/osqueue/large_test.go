package osqueue

import (
	"bytes"
	"compress/gzip"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"osqueue/compat/compattest"
	"osqueue/compat/osqueue/queuev1"
)

// inHand counts calls in flight and blocks them.
type inHand struct {
	arrived chan int64 // length of the body
	goOn    chan struct{}
}

func (h *inHand) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.arrived <- r.ContentLength
	<-h.goOn
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write([]byte(`{"jobId":"x"}`))
}

// A compressed message takes the slots of its decompressed size; a small one takes none.
func TestPackedMessagesTakeSlots(t *testing.T) {
	calls := &inHand{arrived: make(chan int64, 16), goOn: make(chan struct{}, 16)}
	h := New(Config{Native: calls, Calls: compattest.API{Handler: calls}, Limits: Limits{LargeMessages: 1}})
	t.Cleanup(h.Close)
	server := httptest.NewUnstartedServer(h)
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetHTTP1(true)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	t.Cleanup(server.Close)
	for name, p := range protocols {
		t.Run(name, func(t *testing.T) {
			transport := p.transport()
			defer transport.CloseIdleConnections()
			client := queuev1.NewQueueServiceClient(&http.Client{Transport: transport}, server.URL, append(p.options, connect.WithSendGzip())...)
			answered := make(chan error, 16)
			submit := func(length int) {
				go func() {
					_, err := client.SubmitJob(context.Background(), connect.NewRequest(&queuev1.SubmitJobRequest{
						Payload: []byte(`"` + strings.Repeat("a", length) + `"`),
					}))
					answered <- err
				}()
			}
			next := func() int64 {
				t.Helper()
				select {
				case n := <-calls.arrived:
					return n
				case <-time.After(10 * time.Second):
					t.Fatal("no call comes")
					return 0
				}
			}
			submit(100)
			submit(100)
			for range 2 { // side by side
				if n := next(); n > smallBytes {
					t.Errorf("a call of %d bytes", n)
				}
			}
			submit(2 * mediumBytes)
			if n := next(); n < mediumBytes {
				t.Errorf("a call of %d bytes", n)
			}
			submit(2 * mediumBytes)
			select {
			case n := <-calls.arrived:
				t.Errorf("there is room for one large message, and a second one of %d bytes is under way", n)
				calls.arrived <- n
			case <-time.After(100 * time.Millisecond):
			}
			for range 4 {
				calls.goOn <- struct{}{}
			}
			next()
			for range 4 {
				if err := <-answered; err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// Decompression stops at the limit of a message and releases its slots.
func TestBombs(t *testing.T) {
	t.Parallel()
	c := start(t, 1, Limits{MessageBytes: 1 << 20, LargeMessages: 1})
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	_, _ = z.Write([]byte(`{"x":"`))
	for range 64 {
		_, _ = z.Write(bytes.Repeat([]byte("a"), 1<<20))
	}
	_, _ = z.Write([]byte(`"}`))
	_ = z.Close()
	for range 3 {
		got := request(t, "POST", c.leader().address, rpc+"GetStats", bomb.String(), "Content-Encoding", "gzip")
		if got.status != http.StatusTooManyRequests || !strings.Contains(got.body, "resource_exhausted") {
			t.Errorf("answered %d %s", got.status, got.body)
		}
	}
}

// Only submissions may be large.
func TestMessagesWithoutPayloadAreShort(t *testing.T) {
	t.Parallel()
	c := start(t, 1, Limits{})
	list := `{"types":["` + strings.Repeat(`t","`, shortBytes/4) + `"]}`
	for _, coding := range []string{"", "gzip"} {
		body := list
		if coding != "" {
			var packed bytes.Buffer
			z := gzip.NewWriter(&packed)
			_, _ = z.Write([]byte(list))
			_ = z.Close()
			body = packed.String()
		}
		got := request(t, "POST", c.leader().address, rpc+"ClaimJob", body, "Content-Encoding", coding)
		if got.status != http.StatusTooManyRequests || !strings.Contains(got.body, "resource_exhausted") {
			t.Errorf("%q: answered %d %s", coding, got.status, got.body)
		}
	}
}
