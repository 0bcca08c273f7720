package serve

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/hashicorp/go-hclog"

	"osqueue/api/core"
	v1 "osqueue/client/api/v1"
	"osqueue/internal/auth"
	"osqueue/internal/auth/certs"
	"osqueue/internal/auth/oidc"
)

// checkIdentities checks the flags about identities that others vouch for, and reads the rules.
func (o *securityOptions) checkIdentities() error {
	switch {
	case o.issuer == "" && o.audience != "":
		return errors.New("--oidc-audience: give --oidc-issuer too")
	case o.issuer != "" && o.rolesFile == "":
		return errors.New("--oidc-issuer: give --roles-file too: without rules no JWT has rights")
	case (o.issuer != "" || o.rolesFile != "") && o.mode == core.SecurityOff:
		return errors.New("--roles-file and --oidc-issuer: give --security log or on too")
	case o.rolesFile == "":
		return nil
	}
	data, err := os.ReadFile(o.rolesFile)
	if err != nil {
		return fmt.Errorf("--roles-file: %w", err)
	}
	if o.roles, err = auth.ParseRoles(data); err != nil {
		return fmt.Errorf("--roles-file %s: %w", o.rolesFile, err)
	}
	return nil
}

// openOIDC returns the verifier of JWTs, or nil if there is none.
func (o *securityOptions) openOIDC(log hclog.Logger) (*oidc.Verifier, error) {
	if o.issuer == "" {
		return nil, nil
	}
	v, err := oidc.New(oidc.Config{
		Issuer: o.issuer, Audience: o.audience, Algorithms: o.algorithms, Roles: o.roles, Leeway: o.leeway,
		Logger: log.Named("oidc"),
	})
	if err != nil {
		return nil, fmt.Errorf("--oidc-issuer %s: %w", o.issuer, err)
	}
	return v, nil
}

// shownCertificate is the client certificate of a request as one node sends it to another.
type shownCertificate struct {
	Name  string    `json:"name,omitzero"` // of the client, in a certificate of this program
	CN    string    `json:"cn,omitzero"`
	URIs  []string  `json:"uris,omitzero"`
	Until time.Time `json:"until"`
}

// values returns the values of a field of a rule.
func (c *shownCertificate) values(field string) []string {
	switch {
	case field == "name" && c.Name != "":
		return []string{c.Name}
	case field == "cn" && c.CN != "":
		return []string{c.CN}
	case field == "uri":
		return c.URIs
	}
	return nil
}

// id returns the name of the identity for logs.
func (c *shownCertificate) id() string {
	switch {
	case c.Name != "":
		return c.Name
	case len(c.URIs) > 0:
		return c.URIs[0]
	}
	return c.CN
}

func showCertificate(c *x509.Certificate) *shownCertificate {
	shown := &shownCertificate{CN: c.Subject.CommonName, Until: c.NotAfter}
	for _, u := range c.URIs {
		shown.URIs = append(shown.URIs, u.String())
	}
	if s, err := certs.SubjectOf(c); err == nil {
		shown.Name = s.Name
	}
	return shown
}

// certificateOf returns the principal of the client certificate of a request. A node tells the
// certificate of its client in a header, which counts on connections of nodes only.
func (o *securityOptions) certificateOf(r *http.Request) (p *auth.Principal, forLeader string, err error) {
	if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
		return nil, "", nil
	}
	var shown *shownCertificate
	if s, ok := certs.PeerOf(r.TLS); ok && s.Kind == certs.Node {
		if shown = readCertificate(r.Header.Get(v1.HeaderCertificate)); shown == nil {
			return nil, "", nil
		}
	} else {
		shown = showCertificate(r.TLS.VerifiedChains[0][0])
	}
	if !time.Now().Before(shown.Until) {
		return nil, "", fmt.Errorf("%w: the client certificate has expired", auth.ErrToken)
	}
	if p = o.roles.Principal(auth.KindCertificate, "", shown.id(), shown.values); p == nil {
		return nil, "", fmt.Errorf("%w: no rule of --roles-file gives a role to the client certificate of %q", auth.ErrDenied, shown.id())
	}
	p.ExpiresAt = shown.Until.UnixMilli()
	text, err := json.Marshal(shown)
	return p, base64.RawURLEncoding.EncodeToString(text), err
}

// certificateMax bounds the header, in bytes.
const certificateMax = 8 << 10

// readCertificate reads the header of another node, or returns nil.
func readCertificate(header string) *shownCertificate {
	if header == "" || len(header) > certificateMax {
		return nil
	}
	text, err := base64.RawURLEncoding.DecodeString(header)
	if err != nil {
		return nil
	}
	shown := new(shownCertificate)
	if json.Unmarshal(text, shown) != nil || shown.id() == "" {
		return nil
	}
	return shown
}
