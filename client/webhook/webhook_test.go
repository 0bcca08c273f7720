package webhook

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"
)

// TestKnownSignature has the example of the specification of Standard Webhooks.
func TestKnownSignature(t *testing.T) {
	s, err := ParseSecret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		t.Fatal(err)
	}
	got := s.Sign("msg_p5jXN8AQM9LWM0D4loKWxJek", time.Unix(1614265330, 0), []byte(`{"test": 2432232314}`))
	if want := "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="; got != want {
		t.Errorf("signature %s, want %s", got, want)
	}
	if s.Text() != "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw" || s.String() == s.Text() {
		t.Errorf("text %q, for logs %q", s.Text(), s)
	}
}

func TestVerify(t *testing.T) {
	s, other, now := NewSecret(), NewSecret(), time.Unix(1_763_700_000, 0)
	body := []byte(`{"id":"evt_1-2.3"}`)
	for name, c := range map[string]struct {
		id, signature string
		at            time.Time
		want          error
	}{
		"good":            {"a", s.Sign("a", now, body), now, nil},
		"second":          {"a", other.Sign("a", now, body) + " " + s.Sign("a", now, body), now, nil},
		"other secret":    {"a", other.Sign("a", now, body), now, ErrSignature},
		"other id":        {"b", s.Sign("a", now, body), now, ErrSignature},
		"old":             {"a", s.Sign("a", now.Add(-time.Hour), body), now.Add(-time.Hour), ErrTimestamp},
		"future":          {"a", s.Sign("a", now.Add(time.Hour), body), now.Add(time.Hour), ErrTimestamp},
		"none":            {"a", "", now, ErrSignature},
		"version unknown": {"a", "v2," + s.Sign("a", now, body)[3:], now, ErrSignature},
		"no id":           {"", s.Sign("", now, body), now, ErrHeaders},
	} {
		h := http.Header{}
		h.Set(HeaderID, c.id)
		h.Set(HeaderTimestamp, strconv.FormatInt(c.at.Unix(), 10))
		h.Set(HeaderSignature, c.signature)
		if err := s.Verify(h, body, now); !errors.Is(err, c.want) {
			t.Errorf("%s: error %v, want %v", name, err, c.want)
		}
	}
}

func TestRead(t *testing.T) {
	s := NewSecret()
	for name, body := range map[string][]byte{
		"good":      []byte(`{"id":"evt_1-2.3","type":"job.dead"}`),
		"no JSON":   []byte(`{`),
		"too large": make([]byte, BodyMax+1),
	} {
		r := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(body))
		r.Header.Set(HeaderID, "evt_1-2.3")
		r.Header.Set(HeaderTimestamp, strconv.FormatInt(time.Now().Unix(), 10))
		r.Header.Set(HeaderSignature, s.Sign("evt_1-2.3", time.Now(), body))
		e, err := Read(r, s)
		if good := name == "good"; good != (err == nil) || good && e.Type != "job.dead" {
			t.Errorf("%s: %+v, %v", name, e, err)
		}
	}
}

func FuzzVerify(f *testing.F) {
	f.Add("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "a", "1763700000", "v1,AA== v1", []byte("{}"))
	f.Fuzz(func(t *testing.T, secret, id, stamp, signature string, body []byte) {
		s, err := ParseSecret(secret)
		if err != nil {
			return
		}
		if back, err := ParseSecret(s.Text()); err != nil || !bytes.Equal(back, s) {
			t.Fatalf("secret %q came back as %q, %v", secret, back, err)
		}
		h := http.Header{HeaderID: {id}, HeaderTimestamp: {stamp}, HeaderSignature: {signature}}
		if s.Verify(h, body, time.Unix(1_763_700_000, 0)) == nil {
			t.Fatal("a signature was guessed")
		}
	})
}
