package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base32"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"

	"osqueue/fsm"
)

const (
	prefix      = "osq"
	idBytes     = 10
	secretBytes = 32
	tokenMax    = 200 // bytes of text; longer texts are no tokens
)

var encoding = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// ErrToken is wrapped by all errors about a token that is not valid.
var ErrToken = errors.New("the token is not valid")

// ErrUnknown is wrapped, with ErrToken, by the error about a token that the state does not
// have. A node that lags may not have it yet.
var ErrUnknown = errors.New("it does not exist, or was revoked")

// ErrUnsure is wrapped by the errors about a credential that cannot be checked now: it may be valid.
var ErrUnsure = errors.New("the credential cannot be checked now")

// Secret is a token as its owner has it.
type Secret struct {
	ID   string
	Text string // the whole token; it must not reach logs
	Hash string // SHA-256 of the secret
}

// New makes a token from the system's random numbers.
func New() Secret {
	var id [idBytes]byte
	var secret [secretBytes]byte
	_, _ = rand.Read(id[:]) // crypto/rand never fails
	_, _ = rand.Read(secret[:])
	return assemble(encoding.EncodeToString(id[:]), encoding.EncodeToString(secret[:]))
}

func assemble(id, secret string) Secret {
	body := prefix + "_" + id + "_" + secret
	sum := sha256.Sum256([]byte(secret))
	return Secret{ID: id, Text: fmt.Sprintf("%s_%08x", body, crc32.ChecksumIEEE([]byte(body))), Hash: string(sum[:])}
}

// IsID reports whether a text has the form of the id of a token.
func IsID(text string) bool {
	b, err := encoding.DecodeString(text)
	return err == nil && len(b) == idBytes
}

// Parse reads the text of a token. Its errors wrap ErrToken and never contain the text.
func Parse(text string) (Secret, error) {
	if len(text) > tokenMax {
		return Secret{}, fmt.Errorf("%w: it has %d bytes; a token has fewer than %d", ErrToken, len(text), tokenMax)
	}
	parts := strings.Split(text, "_")
	if len(parts) != 4 || parts[0] != prefix {
		return Secret{}, fmt.Errorf("%w: want osq_<id>_<secret>_<crc>", ErrToken)
	}
	s := assemble(parts[1], parts[2])
	if s.Text != text {
		return Secret{}, fmt.Errorf("%w: its checksum does not match; copy the whole token", ErrToken)
	}
	for i, want := range []int{idBytes, secretBytes} {
		data, err := encoding.DecodeString(parts[i+1])
		if err != nil || len(data) != want {
			return Secret{}, fmt.Errorf("%w: want osq_<id>_<secret>_<crc>", ErrToken)
		}
	}
	return s, nil
}

// IsToken reports whether a text has the form of a token; it may be damaged.
func IsToken(text string) bool { return strings.HasPrefix(text, prefix+"_") }

// noHash is compared with the secrets of tokens that do not exist.
var noHash = []byte(New().Hash)

// Opens reports whether s is the secret of t, which may be nil. Its time says nothing about either.
func (s *Secret) Opens(t *fsm.Token) bool {
	hash := noHash
	if t != nil {
		hash = t.Hash
	}
	return subtle.ConstantTimeCompare(hash, []byte(s.Hash)) == 1 && t != nil
}

// Authorize returns the principal of a token. find returns the token of the state with that
// id, or nil. now is in ms.
func Authorize(text string, now int64, find func(id string) *fsm.Token) (*Principal, error) {
	s, err := Parse(text)
	if err != nil {
		return nil, err
	}
	t := find(s.ID)
	switch match := s.Opens(t); {
	case t == nil:
		return nil, fmt.Errorf("%w: token %q: %w", ErrToken, s.ID, ErrUnknown)
	case !match:
		return nil, fmt.Errorf("%w: token %q does not exist, or was revoked", ErrToken, s.ID)
	case t.ExpiresMs != 0 && t.ExpiresMs <= now:
		return nil, fmt.Errorf("%w: token %q has expired", ErrToken, s.ID)
	}
	return OfToken(t), nil
}

// Bearer returns the token in the value of an Authorization header, or "".
func Bearer(header string) string {
	scheme, text, ok := strings.Cut(header, " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(text)
}
