package enroll

import (
	"bytes"
	"context"
	"net/http"
	"time"

	"osqueue/internal/auth/certs"
)

// Trust is the body of a request that changes the CA's certificates of one node.
type Trust struct {
	certs.Bundle
	Check bool `json:"check,omitzero"` // change nothing, and say whether the node would
	// Renew makes the node ask for a certificate of the newest CA, if it has none.
	Renew bool `json:"renew,omitzero"`
}

// Trusted is the answer to Trust.
type Trusted struct {
	Node    string `json:"node"`
	Changed bool   `json:"changed"` // its file had other certificates
	Renewed bool   `json:"renewed"` // its certificate is of the newest CA in the request
}

// trust replaces the certificates of the CA of this node, whether or not it leads. It may be
// repeated.
func (s *Server) trust(_ context.Context, r *http.Request, in Trust) (out Trusted, err error) {
	s.trusting.Lock()
	defer s.trusting.Unlock()
	have, err := certs.ReadList(s.cfg.Files.CA)
	if err != nil {
		return out, err
	}
	own := s.cfg.Identity.Certificate()
	next, err := in.Accept(have, own, time.Now())
	if err != nil {
		return out, refuse(http.StatusConflict, "%v", err)
	}
	out = Trusted{
		Node: s.cfg.Identity.Subject().Name, Changed: !bytes.Equal(certs.Encode(have), certs.Encode(next)),
		Renewed: certs.IssuedBy(own, next[0]),
	}
	if in.Check {
		return out, nil
	}
	if out.Changed {
		if err := certs.WriteCA(s.cfg.Files.CA, next); err != nil {
			return out, err
		}
		s.cfg.Identity.Refresh()
		s.cfg.Log.Warn("the certificates of the CA were replaced", "file", s.cfg.Files.CA, "certificates", len(next), "client", r.RemoteAddr)
	}
	if in.Renew && !out.Renewed {
		select {
		case s.renewNow <- struct{}{}:
		default: // it will be read
		}
	}
	return out, nil
}
