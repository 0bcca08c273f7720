package core

import (
	"crypto/sha256"
	"strings"
	"testing"
)

func fingerprintOf(body string) string {
	h := sha256.New()
	partUnsealed(h, []byte(body))
	return string(h.Sum(nil))
}

func TestFingerprintsLeaveOutCiphertexts(t *testing.T) {
	const (
		job  = `{"id":"a","payload":{"osqueue.sealed":1,"to":"job","data":"AAAA"},"priority":1}`
		fail = `{"error":"osqueue.sealed:1:AAAA","log":"osqueue.sealed:1:BBBB"}`
	)
	same := [][2]string{
		{job, `{"id":"a","payload":{"osqueue.sealed":1,"to":"job","data":"BBBBBBBB"},"priority":1}`},
		{fail, `{"error":"osqueue.sealed:1:CC==","log":"osqueue.sealed:1:DDDDDDDD"}`},
		{job + job, job + `{"id":"a","payload":{"osqueue.sealed":1,"to":"job","data":"C"},"priority":1}`},
	}
	for _, c := range same {
		if fingerprintOf(c[0]) != fingerprintOf(c[1]) {
			t.Errorf("%s and %s differ", c[0], c[1])
		}
	}
	different := [][2]string{
		{job, `{"id":"b","payload":{"osqueue.sealed":1,"to":"job","data":"AAAA"},"priority":1}`},
		{job, `{"id":"a","payload":{"osqueue.sealed":1,"to":"job","data":"AAAA"},"priority":2}`},
		{job, `{"id":"a","payload":{"osqueue.sealed":1,"to":"cron","data":"AAAA"},"priority":1}`},
		{job, `{"id":"a","payload":"AAAA","priority":1}`},
		{`{"payload":"a"}`, `{"payload":"b"}`},
		{`"osqueue.sealed:1:`, `"osqueue.sealed:1:a`},
		{`"osqueue.sealed:2:a"`, `"osqueue.sealed:2:b"`},
		{`"{\"osqueue.sealed\":1,\"to\":\"job\",\"data\":\"a\"}"`, `"{\"osqueue.sealed\":1,\"to\":\"job\",\"data\":\"b\"}"`},
		{`"osqueue.sealed`, `"osqueue.sealed"`},
	}
	for _, c := range different {
		if fingerprintOf(c[0]) == fingerprintOf(c[1]) {
			t.Errorf("%s and %s have the same fingerprint", c[0], c[1])
		}
	}
}

// A caller that repeats a write with its key has another trace; that is the same request.
func TestHeadersAreNoOtherRequest(t *testing.T) {
	for _, form := range []string{
		`{"payload":{"headers":1},"headers":{"traceparent":"T"}}`, `{"jobs":[{"type":"a","headers":{"traceparent":"T"}}]}`,
	} {
		once := string(withoutHeaders([]byte(strings.Replace(form, "T", "1", 1))))
		if again := string(withoutHeaders([]byte(strings.Replace(form, "T", "2", 1)))); once != again {
			t.Errorf("%s and %s", once, again)
		}
		if other := string(withoutHeaders([]byte(strings.NewReplacer(`"headers":1`, `"headers":2`, `"a"`, `"b"`).Replace(form)))); once == other {
			t.Errorf("%s for another body", once)
		}
	}
}
