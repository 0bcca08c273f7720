package enroll

import (
	"context"
	"crypto/x509"
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"osqueue/internal/auth/certs"
	"osqueue/internal/sleep"
)

// Keeper keeps the certificate of a running node valid and, if the node has the key of the CA,
// answers the requests of others.
type Keeper struct {
	Server *Server
	Client *http.Client // to other nodes
	Name   string       // of the node
	// Signer returns the CA with its key; nil: this node signs nothing. It is called for each
	// round, because the CA may be replaced.
	Signer func() (*certs.Authority, error)

	renewed, failed atomic.Uint64
	waiting         atomic.Bool
	told            time.Time // of the last report of a failure
}

// Figures counts the renewals of a node.
type Figures struct {
	Renewed, Failed uint64
	Waiting         bool // the certificate is due, and there is no new one
}

// Figures returns the figures. It may be called from any goroutine.
func (k *Keeper) Figures() Figures {
	return Figures{Renewed: k.renewed.Load(), Failed: k.failed.Load(), Waiting: k.waiting.Load()}
}

const (
	signEvery   = time.Second
	tellEvery   = 24 * time.Hour
	lookFloor   = 500 * time.Millisecond
	lookCeiling = 5 * time.Minute
)

// Run works until ctx ends.
func (k *Keeper) Run(ctx context.Context) {
	var renewed time.Time // next look at the own certificate
	for {
		if k.Signer != nil {
			k.sign(ctx)
		}
		if now := time.Now(); !now.Before(renewed) {
			renewed = now.Add(k.look(ctx))
		}
		wait := time.Until(renewed)
		if k.Signer != nil {
			wait = min(wait, signEvery)
		}
		if !sleep.For(ctx, wait) {
			return
		}
	}
}

// look renews the certificate if that is due. It returns the time until the next look: a
// thousandth of the life of the certificate, within bounds.
func (k *Keeper) look(ctx context.Context) time.Duration {
	own := k.Server.cfg.Identity.Certificate()
	every := min(max(own.NotAfter.Sub(certs.IssuedAt(own))/1000, lookFloor), lookCeiling)
	if !certs.RenewalDue(own, time.Now()) {
		k.waiting.Store(false)
		return every
	}
	k.waiting.Store(true)
	answer, err := k.renew(ctx, own)
	log := k.Server.cfg.Log
	switch {
	case ctx.Err() != nil:
	case err == nil && !answer.Pending:
		k.waiting.Store(false)
		k.renewed.Add(1)
		k.told = time.Time{}
		log.Info("renewed the certificate of this node", "end", k.Server.cfg.Identity.Expires())
	default:
		why := "no signer has answered: run osqueue cert sign where ca.key is, or give a node --tls-ca-key"
		if err != nil {
			k.failed.Add(1)
			why = err.Error()
		}
		// A node with the key of the CA answers in a moment: one look without an answer is normal.
		if k.told.IsZero() {
			k.told = time.Now().Add(2*every - tellEvery)
		}
		if time.Since(k.told) >= tellEvery {
			k.told = time.Now()
			log.Error("the certificate of this node cannot be renewed", "file", k.Server.cfg.Files.Cert,
				"end", own.NotAfter, "left", time.Until(own.NotAfter).Round(time.Second).String(), "reason", why)
		}
	}
	return every
}

var errNoLeader = errors.New("there is no leader")

// renew asks the leader for a certificate of the next key, and installs it.
func (k *Keeper) renew(ctx context.Context, own *x509.Certificate) (Answer, error) {
	files := k.Server.cfg.Files
	key, csr, err := files.NextKey()
	if err != nil {
		return Answer{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var answer Answer
	switch leader, self := k.Server.cfg.Node.Leader(); {
	case self:
		answer, _, err = k.Server.renew(ctx, k.Name, own, csr)
	case leader == "":
		err = errNoLeader
	default:
		err = Post(ctx, k.Client, "http://"+leader+RenewPath, CSR{Request: csr}, &answer)
	}
	if err != nil || answer.Pending {
		return answer, err
	}
	c, err := x509.ParseCertificate(answer.Certificate)
	if err != nil {
		return answer, err
	}
	// A certificate of a CA that this node does not know yet would cut it off.
	roots, err := certs.ReadList(files.CA)
	if err != nil {
		return answer, err
	}
	if !key.PublicKey.Equal(c.PublicKey) {
		return answer, errors.New("the new certificate is for another key")
	}
	want := certs.Expected{Name: k.Name, Hosts: certs.HostsOf(own), Public: c.RawSubjectPublicKeyInfo}
	if err := want.Check(c, roots, time.Now()); err != nil {
		return answer, err
	}
	if err := files.Install(c); err != nil {
		return answer, err
	}
	k.Server.cfg.Identity.Refresh()
	return answer, nil
}

// sign answers the pending requests.
func (k *Keeper) sign(ctx context.Context) {
	pending := Pending(k.Server.cfg.Node.View())
	if len(pending) == 0 {
		return
	}
	a, err := k.Signer()
	log := k.Server.cfg.Log
	if err != nil {
		log.Error("certificate requests cannot be signed", "error", err)
		return
	}
	for _, r := range pending {
		c, err := Sign(a, &r)
		if err == nil {
			err = k.submit(ctx, Signed{ID: r.ID, Certificate: c.Raw})
		}
		if err != nil && ctx.Err() == nil {
			log.Warn("a certificate request was not answered", "node", r.Node, "id", r.ID, "error", err)
		}
	}
}

// submit sends a certificate to the leader.
func (k *Keeper) submit(ctx context.Context, s Signed) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	switch leader, self := k.Server.cfg.Node.Leader(); {
	case self:
		return k.Server.store(ctx, s)
	case leader == "":
		return errNoLeader
	default:
		return Post(ctx, k.Client, "http://"+leader+SignPath, s, &struct{}{})
	}
}
