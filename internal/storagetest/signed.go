package storagetest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"osqueue/internal/sleep"
	"osqueue/storage"
)

// Signs checks that b keeps the contract of storage.Signer, against a store that checks signatures. sums says whether
// the store compares the SHA-256.
func Signs(t *testing.T, b storage.Bucket, sums bool) {
	s := &signs{t: t, ctx: bounded(t), signer: b.(storage.Signer)}
	for _, size := range []int{0, 1, 64*kib + 1} {
		s.once(size, sums)
	}
	s.tampered()
	s.expired()
	for _, valid := range []time.Duration{-1, 0, time.Millisecond, storage.MaxSigned + 1} {
		_, err1 := s.signer.SignPut(s.ctx, "k", announce(nil), valid)
		_, err2 := s.signer.SignGet(s.ctx, "k", valid)
		if err1 == nil || err2 == nil {
			t.Errorf("signed for %v", valid)
		}
	}
	_, err1 := s.signer.SignPut(s.ctx, "a//b", announce(nil), time.Hour)
	_, err2 := s.signer.SignGet(s.ctx, "a//b", time.Hour)
	_, err3 := s.signer.SignPut(s.ctx, "k", storage.Content{Size: storage.MaxStreamBytes + 1}, time.Hour)
	if err1 == nil || err2 == nil || err3 == nil {
		t.Errorf("signed what no object can be: %v, %v, %v", err1, err2, err3)
	}
}

type signs struct {
	t      *testing.T
	ctx    context.Context
	signer storage.Signer
}

// once creates an object with a signed request, which then works no more.
func (s *signs) once(size int, sums bool) {
	s.t.Helper()
	key := fmt.Sprintf("blob/%d-bytes", size)
	data, c := stream(size)
	put := s.put(key, c, time.Hour)
	if status := s.status(put, append([]byte("x"), data...)); status < 400 {
		s.t.Errorf("%d bytes for %d: %d", size+1, size, status)
	}
	if other := bytes.Repeat([]byte("x"), size); sums && size > 0 {
		if status := s.status(put, other); status < 400 {
			s.t.Errorf("%d other bytes: %d", size, status)
		}
	}
	s.holds(key, nil, http.StatusNotFound)
	if status := s.status(put, data); status != http.StatusOK {
		s.t.Fatalf("put of %d bytes: %d", size, status)
	}
	s.holds(key, data, http.StatusOK)
	if status := s.status(put, data); status != http.StatusPreconditionFailed {
		s.t.Errorf("put of %d bytes a second time: %d", size, status)
	}
	if size > 1 {
		get := s.get(key, time.Hour)
		get.Header.Set("Range", "bytes=1-2")
		if status, got := s.send(get, nil); status != http.StatusPartialContent || !bytes.Equal(got, data[1:3]) {
			s.t.Errorf("range of a signed read: %d, %d bytes", status, len(got))
		}
	}
}

// tampered changes signed requests.
func (s *signs) tampered() {
	s.t.Helper()
	data, c := stream(10)
	for name, change := range map[string]func(*storage.Signed){
		"another key":         func(r *storage.Signed) { r.URL = strings.Replace(r.URL, "blob/a", "blob/b", 1) },
		"a longer time":       func(r *storage.Signed) { r.URL = strings.Replace(r.URL, "Expires=3600", "Expires=7200", 1) },
		"another signature":   func(r *storage.Signed) { r.URL = flipSignature(r.URL) },
		"no signature":        func(r *storage.Signed) { r.URL, _, _ = strings.Cut(r.URL, "?") },
		"without its headers": func(r *storage.Signed) { r.Header = http.Header{} },
	} {
		put := s.put("blob/a", c, time.Hour)
		was := put.URL
		if change(&put); put.URL == was && len(put.Header) > 0 {
			s.t.Fatalf("%s: nothing was changed in %s", name, was)
		}
		if status := s.status(put, data); status < 400 || status >= 500 {
			s.t.Errorf("put with %s: %d", name, status)
		}
	}
	for _, key := range []string{"blob/a", "blob/b"} {
		s.holds(key, nil, http.StatusNotFound)
	}
	if status := s.status(s.put("blob/a", c, time.Hour), data); status != http.StatusOK {
		s.t.Fatalf("put: %d", status)
	}
	get := s.get("blob/a", time.Hour)
	for name, r := range map[string]storage.Signed{
		"another signature": {Method: get.Method, URL: flipSignature(get.URL)},
		"another method":    {Method: http.MethodDelete, URL: get.URL},
	} {
		if status, _ := s.send(r, nil); status < 400 || status >= 500 {
			s.t.Errorf("get with %s: %d", name, status)
		}
	}
	s.holds("blob/a", data, http.StatusOK)
}

// flipSignature returns a URL with a signature that differs in one digit.
func flipSignature(raw string) string {
	i := strings.Index(raw, "Signature=") + len("Signature=")
	digit := "0"
	if raw[i:i+1] == digit {
		digit = "1"
	}
	return raw[:i] + digit + raw[i+1:]
}

// expired waits until a read has expired, and then uses a write that was signed before it for as long.
func (s *signs) expired() {
	s.t.Helper()
	data, c := stream(10)
	const valid = 3 * time.Second // signatures have whole seconds, and a machine may be slow
	put, get := s.put("blob/late", c, valid), s.get("blob/a", valid)
	if status, _ := s.send(get, nil); status != http.StatusOK {
		s.t.Errorf("a read signed for %v: %d at once", valid, status)
	}
	for {
		if status, _ := s.send(get, nil); status >= 400 && status < 500 {
			break
		}
		if s.ctx.Err() != nil {
			s.t.Fatalf("a read signed for %v does not expire", valid)
		}
		sleep.For(s.ctx, 100*time.Millisecond)
	}
	if status := s.status(put, data); status < 400 || status >= 500 {
		s.t.Errorf("an expired write: %d", status)
	}
	s.holds("blob/late", nil, http.StatusNotFound)
}

func (s *signs) put(key string, c storage.Content, valid time.Duration) storage.Signed {
	s.t.Helper()
	r, err := s.signer.SignPut(s.ctx, key, c, valid)
	if err != nil || r.Method != http.MethodPut {
		s.t.Fatalf("sign: %s, %v", r.Method, err)
	}
	return r
}

func (s *signs) get(key string, valid time.Duration) storage.Signed {
	s.t.Helper()
	r, err := s.signer.SignGet(s.ctx, key, valid)
	if err != nil || r.Method != http.MethodGet {
		s.t.Fatalf("sign: %s, %v", r.Method, err)
	}
	return r
}

func (s *signs) holds(key string, data []byte, status int) {
	s.t.Helper()
	got, body := s.send(s.get(key, time.Hour), nil)
	if got != status || status == http.StatusOK && !bytes.Equal(body, data) {
		s.t.Errorf("get %q: %d with %d bytes, want %d with %d", key, got, len(body), status, len(data))
	}
}

func (s *signs) status(r storage.Signed, data []byte) int {
	s.t.Helper()
	status, _ := s.send(r, data)
	return status
}

// send makes a signed request, and returns the status and the body of the answer.
func (s *signs) send(r storage.Signed, data []byte) (int, []byte) {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.ctx, r.Method, r.URL, bytes.NewReader(data))
	if err != nil {
		s.t.Fatal(err)
	}
	maps.Copy(req.Header, r.Header)
	transport := &http.Transport{DisableKeepAlives: true}
	res, err := transport.RoundTrip(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return res.StatusCode, body
}
