// Package webhook verifies the deliveries of webhooks, for programs that receive them.
//
//	key, err := webhook.ParseSecret(os.Getenv("HOOK_SECRET"))
//	http.HandleFunc("POST /osqueue", func(w http.ResponseWriter, r *http.Request) {
//		event, err := webhook.Read(r, key)
//		if err != nil {
//			http.Error(w, "not a delivery", http.StatusUnauthorized)
//			return
//		}
//		if seen(event.ID) { // a repetition
//			return
//		}
//		…
//	})
//
// Headers and signature are those of Standard Webhooks, so its libraries verify deliveries,
// too. A delivery may come more than once, and has the same id each time.
package webhook

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	v1 "osqueue/client/api/v1"
)

// The headers of a delivery.
const (
	HeaderID        = "Webhook-Id"
	HeaderTimestamp = "Webhook-Timestamp"
	HeaderSignature = "Webhook-Signature"
)

const (
	secretPrefix    = "whsec_"
	signaturePrefix = "v1,"
	// Tolerance is the largest difference between the timestamp of a delivery and the clock of
	// the receiver.
	Tolerance = 5 * time.Minute
	// BodyMax is the largest body that Read accepts, in bytes.
	BodyMax = 64 << 10

	secretMin, secretMax, secretNew = 24, 64, 32 // bytes
	signaturesMax                   = 16
)

// The errors of ParseSecret, Verify and Read.
var (
	// ErrSecret means that ParseSecret got no secret.
	ErrSecret = errors.New("the secret of the webhook is not valid: must be whsec_ and the Base64 of 24 to 64 bytes")
	// ErrHeaders means that the request has no HeaderID, or no valid HeaderTimestamp.
	ErrHeaders = errors.New("the request is not a delivery: " + HeaderID + " is missing, or " + HeaderTimestamp + " is not a number")
	// ErrTimestamp means that the delivery is older than Tolerance, or as far in the future.
	ErrTimestamp = errors.New("the timestamp is too far from the clock of this machine")
	// ErrSignature means that the body was changed, or signed with another secret.
	ErrSignature = errors.New("no signature matches the secret: sender and receiver must have the same one")
)

// Secret is the key of the signatures.
type Secret []byte

// NewSecret returns a random secret.
func NewSecret() Secret {
	key := make([]byte, secretNew)
	_, _ = rand.Read(key) // it never fails
	return key
}

// ParseSecret reads the text of a secret, as "osqueue hook put" prints it. The error is
// ErrSecret.
func ParseSecret(text string) (Secret, error) {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(text, secretPrefix))
	if err != nil || len(key) < secretMin || len(key) > secretMax {
		return nil, ErrSecret
	}
	return key, nil
}

// Text returns the secret as text.
func (s Secret) Text() string { return secretPrefix + base64.StdEncoding.EncodeToString(s) }

// String hides the secret from logs.
func (s Secret) String() string { return secretPrefix + "…" }

// Sign returns the signature of a body.
func (s Secret) Sign(id string, at time.Time, body []byte) string {
	return signaturePrefix + base64.StdEncoding.EncodeToString(s.sum(id, strconv.FormatInt(at.Unix(), 10), body))
}

func (s Secret) sum(id, timestamp string, body []byte) []byte {
	mac := hmac.New(sha256.New, s)
	mac.Write([]byte(id + "." + timestamp + "."))
	mac.Write(body)
	return mac.Sum(nil)
}

// Verify returns nil if one of the signatures in the headers is that of the body by the
// secret, and if the timestamp is at most Tolerance from now. The error wraps one of this
// package.
func (s Secret) Verify(h http.Header, body []byte, now time.Time) error {
	id, stamp := h.Get(HeaderID), h.Get(HeaderTimestamp)
	seconds, err := strconv.ParseInt(stamp, 10, 64)
	if id == "" || err != nil {
		return ErrHeaders
	}
	if off := now.Sub(time.Unix(seconds, 0)); off.Abs() > Tolerance {
		return fmt.Errorf("%w: it is %s off; at most %s is allowed", ErrTimestamp, off.Round(time.Second), Tolerance)
	}
	want := s.sum(id, stamp, body)
	for i, text := range strings.Fields(h.Get(HeaderSignature)) {
		given, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(text, signaturePrefix))
		if i == signaturesMax {
			break
		}
		if err == nil && strings.HasPrefix(text, signaturePrefix) && hmac.Equal(given, want) {
			return nil
		}
	}
	return ErrSignature
}

// Read reads and verifies a delivery.
func Read(r *http.Request, s Secret) (v1.HookEvent, error) {
	body, err := io.ReadAll(io.LimitReader(r.Body, BodyMax+1))
	switch {
	case err != nil:
		return v1.HookEvent{}, fmt.Errorf("read a delivery: %w", err)
	case len(body) > BodyMax:
		return v1.HookEvent{}, fmt.Errorf("read a delivery: it has more than %d bytes", BodyMax)
	}
	if err := s.Verify(r.Header, body, time.Now()); err != nil {
		return v1.HookEvent{}, err
	}
	var e v1.HookEvent
	if err := json.Unmarshal(body, &e); err != nil {
		return v1.HookEvent{}, fmt.Errorf("read a delivery: %w", err)
	}
	return e, nil
}
