package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"osqueue/client"
	"osqueue/client/worker"
)

func mustHTTP(t *testing.T, target string, cfg HTTPConfig) worker.HandlerFunc {
	t.Helper()
	fn, err := HTTP(target, cfg)
	check(t, err)
	return fn
}

// answering is a service that answers each request by h.
func answering(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	srv := httptest.NewServer(h)
	srv.Config.SetKeepAlivesEnabled(false) // no idle connection outlives the test
	t.Cleanup(srv.Close)
	return srv.URL
}

func TestHTTPPostsThePayload(t *testing.T) {
	target := answering(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, `["%s %s", %s, "%s %s %s %s", "%s"]`, r.Method, r.URL.Path, body, r.Header.Get(HeaderJobID),
			r.Header.Get(HeaderJobType), r.Header.Get(HeaderAttempt), r.Header.Get(HeaderFence), r.Header.Get("Content-Type"))
	})
	job := worker.Job{ClaimedJob: client.ClaimedJob{ID: "j1", Type: "a\ntype", Attempt: 2, Token: 4294967297, Payload: json.RawMessage(`{"a":1}`)}}
	got, err := mustHTTP(t, target+"/run", HTTPConfig{})(bounded(t), job)
	if want := `["POST /run", {"a":1}, "j1 a%0Atype 2 4294967297", "application/json"]`; err != nil || string(got) != want {
		t.Errorf("got %s, %v; want %s", got, err, want)
	}
}

func TestHTTPStatusDecides(t *testing.T) {
	cases := []struct {
		status     int
		retryAfter string
		permanent  bool
		delay      time.Duration
	}{
		{status: 400, permanent: true},
		{status: 404, permanent: true},
		{status: 302, permanent: true},
		{status: 408},
		{status: 425},
		{status: 429, retryAfter: "7", delay: 7 * time.Second},
		{status: 503, retryAfter: "9999999999999", delay: maxRetryAfter},
		{status: 503, retryAfter: "soon"},
		{status: 500},
	}
	for _, c := range cases {
		followed := false
		target := answering(t, func(w http.ResponseWriter, r *http.Request) {
			followed = followed || r.URL.Path == "/elsewhere"
			w.Header().Set("Location", "/elsewhere")
			w.Header().Set("Retry-After", c.retryAfter)
			w.WriteHeader(c.status)
			fmt.Fprint(w, "because")
		})
		_, err := mustHTTP(t, target, HTTPConfig{})(bounded(t), worker.Job{})
		if err == nil || !strings.Contains(err.Error(), "because") || followed {
			t.Errorf("%d: %v, followed: %v", c.status, err, followed)
			continue
		}
		f := failureOf(err)
		if f.Permanent != c.permanent || f.Delay != c.delay {
			t.Errorf("%d, Retry-After %q: %+v", c.status, c.retryAfter, f)
		}
	}
}

func TestRetryAfterIsADate(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for text, want := range map[string]time.Duration{"Fri, 02 Jan 2026 03:05:05 GMT": time.Minute, "Fri, 02 Jan 2026 03:00:00 GMT": 0} {
		if got, ok := retryAfter(text, now); !ok || got != want {
			t.Errorf("%s: %v, %v", text, got, ok)
		}
	}
}

func TestHTTPAnswers(t *testing.T) {
	for body, want := range map[string]string{"": "", `{"b":2}`: `{"b":2}`, "plain\n": `"plain"`} {
		target := answering(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, body) })
		if got, err := mustHTTP(t, target, HTTPConfig{})(bounded(t), worker.Job{}); err != nil || string(got) != want {
			t.Errorf("%q: got %s, %v", body, got, err)
		}
	}
}

func TestHTTPAnswerIsBounded(t *testing.T) {
	target := answering(t, func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			if _, err := w.Write(make([]byte, 32<<10)); err != nil {
				return
			}
		}
	})
	_, err := mustHTTP(t, target, HTTPConfig{MaxAnswer: 1000})(bounded(t), worker.Job{})
	if err == nil || !strings.Contains(err.Error(), "larger than 1000 bytes") || !failureOf(err).Permanent {
		t.Errorf("got %v", err)
	}
}

// The largest number stands for no bound.
func TestHTTPAnswerWithoutBound(t *testing.T) {
	target := answering(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, `{"b":2}`) })
	got, err := mustHTTP(t, target, HTTPConfig{MaxAnswer: math.MaxInt64})(bounded(t), worker.Job{})
	if err != nil || string(got) != `{"b":2}` {
		t.Errorf("got %s, %v", got, err)
	}
}

func TestHTTPIsSlow(t *testing.T) {
	target := answering(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	})
	if _, err := mustHTTP(t, target, HTTPConfig{Timeout: 50 * time.Millisecond})(bounded(t), worker.Job{}); !errors.Is(err, errServiceSlow) {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancelCause(bounded(t))
	time.AfterFunc(50*time.Millisecond, func() { cancel(worker.ErrCancelled) })
	if _, err := mustHTTP(t, target, HTTPConfig{})(ctx, worker.Job{}); !errors.Is(err, worker.ErrCancelled) {
		t.Errorf("got %v", err)
	}
}

func TestHTTPNobodyThereIsRetried(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	l.Close()
	_, err = mustHTTP(t, "http://"+l.Addr().String(), HTTPConfig{})(bounded(t), worker.Job{})
	if err == nil || failureOf(err).Permanent {
		t.Errorf("got %v", err)
	}
}

func TestDialedAddresses(t *testing.T) {
	allow := []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("fd12::/16")}
	for address, want := range map[string]bool{
		"127.0.0.1:80": true, "[::1]:80": true, "[::ffff:127.0.0.1]:80": true, "93.184.216.34:443": true, "[2606:4700::1]:443": true,
		"10.1.2.3:80": true, "[::ffff:10.1.2.3]:80": true, "[fd12::1]:80": true,
		"10.2.0.1:80": false, "172.16.0.1:80": false, "192.168.1.1:80": false, "169.254.169.254:80": false, "[fd00:ec2::254]:80": false,
		"[fe80::1%eth0]:80": false, "[fe80::1]:80": false, "100.64.0.1:80": false, "0.0.0.0:80": false, "[::]:80": false, "224.0.0.1:80": false,
		"255.255.255.255:80": false, "[::ffff:169.254.169.254]:80": false, "[64:ff9b::a9fe:a9fe]:80": false, "[2002:a9fe:a9fe::]:80": false,
		"[ff02::1]:80": false, "192.0.0.192:80": false, "198.18.0.1:80": false, "240.0.0.1:80": false, "nonsense": false,
	} {
		if err := checkDialed(address, allow); (err == nil) != want {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// The check is in force where connections are made, whatever the name said.
func TestHTTPRefusesPrivateAddresses(t *testing.T) {
	for _, target := range []string{"http://169.254.169.254/latest/meta-data", "http://10.0.0.1", "http://[::ffff:192.168.0.1]/"} {
		began := time.Now()
		_, err := mustHTTP(t, target, HTTPConfig{})(bounded(t), worker.Job{})
		if !errors.Is(err, errRefusedAddress) || time.Since(began) > 5*time.Second {
			t.Errorf("%s: %v", target, err)
		}
	}
}

func TestHTTPRefusesWhatIsNoService(t *testing.T) {
	for _, target := range []string{"", "ftp://a", "a.b/c", "http://", "http://a b"} {
		if _, err := HTTP(target, HTTPConfig{}); err == nil {
			t.Errorf("%q was taken", target)
		}
	}
}
