package enroll

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"net"
	"strings"

	"osqueue/internal/auth"
	"osqueue/internal/auth/certs"
)

// Token is a join token as its owner has it.
type Token struct {
	Secret    auth.Secret
	Name      string
	Pins      []certs.Pin // of the CA's certificates
	Addresses []string    // HTTP addresses of nodes, host:port
}

// tokenForm is the content of the text of a Token.
type tokenForm struct {
	Secret    string   `json:"s"`
	Name      string   `json:"n"`
	Pins      [][]byte `json:"p"`
	Addresses []string `json:"a"`
}

const (
	tokenPrefix  = "osqj_"
	textMax      = 4 << 10 // bytes of the text of a token
	pinsMax      = 4
	addressesMax = 9
)

// ErrToken is wrapped by the errors about the text of a join token.
var ErrToken = errors.New("this is not a join token of osqueue cert join-token")

// String returns the text of a token, which is secret.
func (t *Token) String() string {
	f := tokenForm{Secret: t.Secret.Text, Name: t.Name, Addresses: t.Addresses}
	for _, p := range t.Pins {
		f.Pins = append(f.Pins, p[:])
	}
	data, err := json.Marshal(f) //nolint:gosec // the text of a token has its secret
	if err != nil {
		panic(err) // it has strings and bytes only
	}
	body := tokenPrefix + base64.RawURLEncoding.EncodeToString(data)
	return fmt.Sprintf("%s.%08x", body, crc32.ChecksumIEEE([]byte(body)))
}

// ParseToken reads the text of a token. Its errors wrap ErrToken and never contain the text.
func ParseToken(text string) (Token, error) {
	body, sum, ok := strings.Cut(strings.TrimSpace(text), ".")
	if !ok || len(text) > textMax || !strings.HasPrefix(body, tokenPrefix) {
		return Token{}, fmt.Errorf("%w: want osqj_…", ErrToken)
	}
	if sum != fmt.Sprintf("%08x", crc32.ChecksumIEEE([]byte(body))) {
		return Token{}, fmt.Errorf("%w: its checksum does not match; copy the whole token", ErrToken)
	}
	data, err := base64.RawURLEncoding.DecodeString(body[len(tokenPrefix):])
	var f tokenForm
	if err == nil {
		err = json.Unmarshal(data, &f)
	}
	if err != nil {
		return Token{}, fmt.Errorf("%w: %w", ErrToken, err)
	}
	return f.token()
}

func (f *tokenForm) token() (t Token, err error) {
	t = Token{Name: f.Name, Addresses: f.Addresses}
	if t.Secret, err = auth.Parse(f.Secret); err != nil {
		return Token{}, fmt.Errorf("%w: its secret is damaged", ErrToken)
	}
	if err := certs.CheckName(f.Name); err != nil {
		return Token{}, fmt.Errorf("%w: %w", ErrToken, err)
	}
	if n := len(f.Pins); n == 0 || n > pinsMax {
		return Token{}, fmt.Errorf("%w: it has %d pins; must be 1 to %d", ErrToken, n, pinsMax)
	}
	if n := len(f.Addresses); n == 0 || n > addressesMax {
		return Token{}, fmt.Errorf("%w: it has %d addresses; must be 1 to %d", ErrToken, n, addressesMax)
	}
	for _, p := range f.Pins {
		if len(p) != len(certs.Pin{}) {
			return Token{}, fmt.Errorf("%w: a pin has %d bytes; must be %d", ErrToken, len(p), len(certs.Pin{}))
		}
		t.Pins = append(t.Pins, certs.Pin(p))
	}
	for _, a := range f.Addresses {
		if _, _, err := net.SplitHostPort(a); err != nil {
			return Token{}, fmt.Errorf("%w: %w", ErrToken, err)
		}
	}
	return t, nil
}
