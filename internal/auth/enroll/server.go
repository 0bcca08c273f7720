package enroll

import (
	"bytes"
	"cmp"
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/time/rate"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/internal/auth"
	"osqueue/internal/auth/certs"
	"osqueue/internal/web"
)

// The paths of the requests, all POST with JSON bodies.
const (
	prefix      = "/cluster/v1/certificate/"
	CAPath      = prefix + "ca"
	JoinPath    = prefix + "join"
	RenewPath   = prefix + "renew"
	TokenPath   = prefix + "join-token"
	PendingPath = prefix + "pending"
	SignPath    = prefix + "sign" // the certificate proves that the CA has signed it
)

// Bounds of join tokens.
const (
	DefaultTTL  = time.Hour
	ttlMax      = 7 * 24 * time.Hour
	lifetimeMax = 10 * 365 * 24 * time.Hour
	hostsMax    = 32
	bodyMax     = 32 << 10 // bytes of a request
)

// Node is the part of a node that a Server needs.
type Node interface {
	View() *fsm.View
	Token(id string) *fsm.Token
	Leader() (address string, self bool)
	Now() int64
	ProposeAll(ctx context.Context, ms []*fsmpb.Mutation) ([]fsm.Result, fsm.LSN, error)
}

// Config configures a Server. All fields are required.
type Config struct {
	Node     Node
	Files    certs.Files
	Identity *certs.Identity // of these files
	Site     Site
	// Audit records what happened to a certificate or a join token.
	Audit func(Act)
	Log   hclog.Logger
}

// Site is what a new node has to know of this one, from its flags.
type Site struct {
	Addresses []string // HTTP addresses of nodes, this one first
	Peers     string   // value of --peers
	Raft      string   // address of its raft port
	Bucket    string   // URL
}

// Act is the use of a join token or a certificate, for the audit log. It has no secret.
type Act struct {
	Principal string // "join token ID" or "node NAME"; "": the node itself
	Address   string // of the client; "": none
	Action    string
	Node      string // that the certificate is for; "": not known
	Status    int
	Refusal   string // why; "": not refused
}

// Server answers requests about certificates, on the active leader. It is safe for concurrent
// use.
type Server struct {
	cfg    Config
	warned *rate.Limiter // of warnings that strangers can cause
}

// New returns a server.
func New(cfg Config) *Server {
	return &Server{cfg: cfg, warned: rate.NewLimiter(rate.Every(10*time.Second), 10)}
}

// warn logs what strangers can cause, so not too often.
func (s *Server) warn(what string, args ...any) {
	if s.warned.Allow() {
		s.cfg.Log.Warn(what, args...)
	}
}

// NewToken is the body of a request for a join token.
type NewToken struct {
	Node     string   `json:"node"`
	Hosts    []string `json:"hosts"`
	HTTP     string   `json:"http"` // address of the node's HTTP port; "": the first host, with the port of this node
	TTL      int64    `json:"ttlMs,omitzero"`
	Lifetime int64    `json:"lifetimeMs,omitzero"` // of the certificate
}

// Made is the answer to NewToken.
type Made struct {
	ID      string `json:"id"`
	Token   string `json:"token"`
	HTTP    string `json:"http"`
	Expires int64  `json:"expiresAt"` // ms
}

// CSR is the body of a request for a certificate.
type CSR struct {
	Secret  string `json:"secret,omitzero"` // of a join token
	Request []byte `json:"request"`         // DER
}

// Answer is the answer to a CSR.
type Answer struct {
	Pending     bool   `json:"pending,omitzero"`     // ask again
	Certificate []byte `json:"certificate,omitzero"` // DER
	CA          string `json:"ca,omitzero"`          // PEM
	Peers       string `json:"peers,omitzero"`       // value of --peers
	HTTP        string `json:"http,omitzero"`        // address of the HTTP port of a new node
	Raft        string `json:"raft,omitzero"`        // address of its raft port: its first host, with the port of the answering node
	Bucket      string `json:"bucket,omitzero"`      // URL
}

// Signed is the body of a request that answers one for a certificate.
type Signed struct {
	ID          string `json:"id"`
	Certificate []byte `json:"certificate"` // DER
}

// refusal is an error with a status.
type refusal struct {
	status int
	text   string
}

func (e *refusal) Error() string { return e.text }

func refuse(status int, format string, args ...any) error {
	return &refusal{status, fmt.Sprintf(format, args...)}
}

var errNotLeader = errors.New("this node is not the active leader")

// Routes returns the requests and the rights that they need, which their handlers do not check.
func (s *Server) Routes() []auth.Route {
	return []auth.Route{
		{Pattern: "POST " + CAPath, Right: auth.Public, Handler: handler(s, func(context.Context, *http.Request, struct{}) (Answer, error) { return s.ca() })},
		{Pattern: "POST " + JoinPath, Right: auth.Public, Handler: handler(s, s.recorded(JoinPath, s.join))}, // the secret of a join token is the credential
		{Pattern: "POST " + RenewPath, Right: auth.Node, Handler: handler(s, s.recorded(RenewPath, s.renewal))},
		{Pattern: "POST " + TokenPath, Right: auth.Admin, Handler: handler(s, s.create)},
		{Pattern: "POST " + PendingPath, Right: auth.Admin, Handler: handler(s, func(context.Context, *http.Request, struct{}) ([]Request, error) {
			return append([]Request{}, Pending(s.cfg.Node.View())...), nil
		})},
		{Pattern: "POST " + SignPath, Right: auth.Admin | auth.Node, Handler: handler(s, func(ctx context.Context, _ *http.Request, in Signed) (struct{}, error) {
			return struct{}{}, s.store(ctx, in)
		})},
	}
}

// handler decodes a request for do, on the active leader only, and encodes its answer.
func handler[In, Out any](s *Server, do func(context.Context, *http.Request, In) (Out, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if leader, self := s.cfg.Node.Leader(); !self {
			web.WriteJSON(w, http.StatusMisdirectedRequest, web.Refusal{Message: errNotLeader.Error(), Leader: leader})
			return
		}
		var in In
		err := json.NewDecoder(io.LimitReader(r.Body, bodyMax)).Decode(&in)
		if err != nil {
			err = refuse(http.StatusBadRequest, "body: %v", err)
		}
		var out Out
		if err == nil {
			out, err = do(r.Context(), r, in)
		}
		var refused *refusal
		switch {
		case err == nil:
			web.WriteJSON(w, http.StatusOK, out)
		case errors.As(err, &refused):
			web.WriteJSON(w, refused.status, web.Refusal{Message: err.Error()})
		default: // not committed, or outcome unknown: the client may repeat every request
			web.WriteJSON(w, http.StatusServiceUnavailable, web.Refusal{Message: err.Error()})
		}
	}
}

// propose commits mutations and returns the code of the last one.
func (s *Server) propose(ctx context.Context, ms ...*fsmpb.Mutation) (fsm.Code, error) {
	results, _, err := s.cfg.Node.ProposeAll(ctx, ms)
	if err != nil {
		return 0, err
	}
	return results[len(results)-1].Code, nil
}

func (s *Server) ca() (Answer, error) {
	list, err := certs.ReadList(s.cfg.Files.CA)
	return Answer{CA: string(certs.Encode(list...))}, err
}

// create makes a join token.
func (s *Server) create(ctx context.Context, _ *http.Request, in NewToken) (out Made, err error) {
	in.TTL, in.Lifetime = cmp.Or(in.TTL, DefaultTTL.Milliseconds()), cmp.Or(in.Lifetime, certs.NodeLifetime.Milliseconds())
	if in.HTTP == "" && len(in.Hosts) > 0 {
		in.HTTP = samePort(in.Hosts[0], s.cfg.Site.Addresses[0])
	}
	if err := in.check(); err != nil {
		return out, refuse(http.StatusBadRequest, "%v", err)
	}
	ca, err := certs.ReadList(s.cfg.Files.CA)
	if err != nil {
		return out, err
	}
	t := Token{Secret: auth.New(), Name: in.Node}
	for _, c := range ca[:min(len(ca), pinsMax)] {
		t.Pins = append(t.Pins, certs.PinOf(c))
	}
	t.Addresses = s.cfg.Site.Addresses[:min(len(s.cfg.Site.Addresses), addressesMax)]
	texts := append([]string{httpValue + "=" + in.HTTP}, issue(in.Lifetime, in.Hosts)...)
	expires := s.cfg.Node.Now() + in.TTL
	code, err := s.propose(ctx, record(joinRecord+t.Secret.ID, in.Node, []byte(t.Secret.Hash), expires, texts))
	if err != nil {
		return out, err
	}
	if err := code.Err(); err != nil {
		return out, refuse(http.StatusConflict, "%v", err)
	}
	s.cfg.Log.Info("made a join token", "id", t.Secret.ID, "node", in.Node, "hosts", in.Hosts, "http", in.HTTP)
	return Made{ID: t.Secret.ID, Token: t.String(), HTTP: in.HTTP, Expires: expires}, nil
}

// samePort returns an address with the port of another one.
func samePort(host, of string) string {
	_, port, err := net.SplitHostPort(of)
	if err != nil {
		return ""
	}
	return net.JoinHostPort(host, port)
}

// peers returns the value of --peers with the nodes that have a record.
func (s *Server) peers() string {
	out := s.cfg.Site.Peers
	for _, p := range Peers(s.cfg.Node.View()) {
		if !strings.Contains(","+out, ","+p.Name+"=") {
			out += "," + p.Name + "=" + p.HTTP
		}
	}
	return out
}

func (in *NewToken) check() error {
	switch {
	case in.TTL < 1000 || in.TTL > ttlMax.Milliseconds():
		return fmt.Errorf("ttl %v: must be from 1s to %v", time.Duration(in.TTL)*time.Millisecond, ttlMax)
	case in.Lifetime < 1000 || in.Lifetime > lifetimeMax.Milliseconds():
		return fmt.Errorf("lifetime %v: must be from 1s to %v", time.Duration(in.Lifetime)*time.Millisecond, lifetimeMax)
	case len(in.Hosts) > hostsMax:
		return fmt.Errorf("%d hosts: at most %d are allowed", len(in.Hosts), hostsMax)
	}
	if _, port, err := net.SplitHostPort(in.HTTP); err != nil || port == "" || len(in.HTTP) > pieceBytes {
		return fmt.Errorf("address %q of the HTTP port: want host:port", in.HTTP)
	}
	for _, h := range in.Hosts {
		if len(h) > pieceBytes {
			return fmt.Errorf("host %.40q…: has %d bytes; at most %d are allowed", h, len(h), pieceBytes)
		}
	}
	return errors.Join(certs.CheckName(in.Node), certs.CheckHosts(in.Hosts))
}

var errNoToken = refuse(http.StatusForbidden, "the join token does not exist, has expired, or was made before the certificates of its node were revoked: "+
	"make another one with: osqueue cert join-token")

// asked answers a request for a certificate, and fills the principal and the node of act. new
// is set if the request was the first for its key.
type asked func(ctx context.Context, r *http.Request, in CSR, act *Act) (out Answer, isNew bool, err error)

// recorded returns do with a record of new requests and of refusals. A client repeats its request
// until the certificate is there: the repetitions are not recorded.
func (s *Server) recorded(path string, do asked) func(context.Context, *http.Request, CSR) (Answer, error) {
	return func(ctx context.Context, r *http.Request, in CSR) (Answer, error) {
		act := Act{Address: r.RemoteAddr, Action: http.MethodPost + " " + path, Status: http.StatusOK}
		out, isNew, err := do(ctx, r, in, &act)
		var refused *refusal
		if errors.As(err, &refused) {
			act.Status, act.Refusal = refused.status, refused.text
		}
		if refused != nil || isNew && err == nil {
			s.cfg.Audit(act)
		}
		return out, err
	}
}

// join answers the owner of a join token.
func (s *Server) join(ctx context.Context, r *http.Request, in CSR, act *Act) (out Answer, isNew bool, err error) {
	secret, err := auth.Parse(in.Secret)
	if err != nil {
		return out, false, refuse(http.StatusForbidden, "the secret of the join token is damaged")
	}
	t := s.cfg.Node.Token(joinRecord + secret.ID)
	if !secret.Opens(t) || t.CreatedMs <= s.revokedAt(t.Name) {
		s.warn("refused a join token", "client", r.RemoteAddr, "id", secret.ID)
		return out, false, errNoToken
	}
	act.Principal, act.Node = "join token "+secret.ID, t.Name
	public, err := certs.ReadRequest(in.Request)
	if err != nil {
		return out, false, refuse(http.StatusBadRequest, "%v", err)
	}
	if s.cfg.Node.Token(keyRecord+secret.ID) == nil {
		code, err := s.propose(ctx, record(keyRecord+secret.ID, t.Name, sum(public), t.ExpiresMs, putBytes(public)))
		switch {
		case err != nil:
			return out, false, err
		case code == fsm.OK:
			isNew = true
			s.cfg.Log.Warn("a join token was used", "id", secret.ID, "node", t.Name, "client", r.RemoteAddr)
		case code == fsm.Duplicate, code == fsm.IDTaken: // answer looks which key was first
		default:
			return out, false, refuse(http.StatusForbidden, "%v", code.Err())
		}
	}
	out, err = s.answer(secret.ID, public, r.RemoteAddr)
	if self := t.Name + "="; out.Certificate != nil && !strings.Contains(","+out.Peers, ","+self) {
		out.Peers += "," + self + value(t, httpValue)
	}
	out.HTTP, out.Raft, out.Bucket = value(t, httpValue), samePort(value(t, hostValue), s.cfg.Site.Raft), s.cfg.Site.Bucket
	return out, isNew, err
}

// answer returns the answer to the request with an id.
func (s *Server) answer(id string, public []byte, client string) (Answer, error) {
	key, cert := s.cfg.Node.Token(keyRecord+id), s.cfg.Node.Token(certRecord+id)
	if key == nil {
		return Answer{}, errNoToken
	}
	if !bytes.Equal(key.Hash, sum(public)) {
		s.warn("a join token was used a second time, by another key", "id", id, "node", key.Name, "client", client)
		return Answer{}, refuse(http.StatusForbidden, "the join token was used by another machine already: "+
			"if that was not you, run osqueue cert revoke %s, and make another token", key.Name)
	}
	if cert == nil {
		return Answer{Pending: true}, nil
	}
	der, err := getBytes(cert)
	if err != nil {
		return Answer{}, err
	}
	out, err := s.ca()
	out.Certificate = der
	out.Peers = s.peers()
	return out, err
}

// renewal answers a node that wants a new certificate.
func (s *Server) renewal(ctx context.Context, r *http.Request, in CSR, act *Act) (Answer, bool, error) {
	peer, ok := certs.PeerOf(r.TLS)
	if !ok || peer.Kind != certs.Node {
		return Answer{}, false, refuse(http.StatusForbidden, "a node renews its certificate on a connection with it")
	}
	act.Principal, act.Node = "node "+peer.Name, peer.Name
	return s.renew(ctx, peer.Name, r.TLS.VerifiedChains[0][0], in.Request)
}

// renew answers the node name, whose certificate is old. isNew is set for the first request.
func (s *Server) renew(ctx context.Context, name string, old *x509.Certificate, csr []byte) (out Answer, isNew bool, err error) {
	public, err := certs.ReadRequest(csr)
	if err != nil {
		return out, false, refuse(http.StatusBadRequest, "%v", err)
	}
	id := renewalID(name)
	if key := s.cfg.Node.Token(keyRecord + id); key != nil && bytes.Equal(key.Hash, sum(public)) {
		out, err = s.answer(id, public, name)
		return out, false, err
	}
	lifetime := old.NotAfter.Sub(certs.IssuedAt(old)).Milliseconds()
	expires := max(old.NotAfter.UnixMilli(), s.cfg.Node.Now()+time.Minute.Milliseconds())
	ops := s.dropAll(id)
	ops = append(ops,
		record(joinRecord+id, name, sum(public), expires, issue(max(lifetime, 1), certs.HostsOf(old))),
		record(keyRecord+id, name, sum(public), expires, putBytes(public)))
	code, err := s.propose(ctx, ops...)
	if err != nil {
		return out, false, err
	}
	if code == fsm.OK {
		s.cfg.Log.Info("a node asks for a new certificate", "node", name, "expires", old.NotAfter)
	} else if err := code.Err(); err != nil {
		return out, false, refuse(http.StatusConflict, "%v", err)
	}
	return Answer{Pending: true}, code == fsm.OK, nil
}

// dropAll returns the mutations that remove the records of an id.
func (s *Server) dropAll(id string) (ops []*fsmpb.Mutation) {
	for _, kind := range []string{joinRecord, keyRecord, certRecord} {
		if s.cfg.Node.Token(kind+id) != nil {
			ops = append(ops, drop(kind+id))
		}
	}
	return ops
}

// revokedAt returns the time in ms up to which the certificates of a node are revoked.
func (s *Server) revokedAt(name string) int64 {
	if t := s.cfg.Node.Token(fsm.RevokedMark(name)); t != nil {
		return t.CreatedMs
	}
	return 0
}

// store stores the certificate of a request.
func (s *Server) store(ctx context.Context, in Signed) error {
	join, key := s.cfg.Node.Token(joinRecord+in.ID), s.cfg.Node.Token(keyRecord+in.ID)
	if join == nil || key == nil {
		return refuse(http.StatusNotFound, "there is no request %q; it may have ended", in.ID)
	}
	if s.cfg.Node.Token(certRecord+in.ID) != nil {
		return nil // another one has signed it
	}
	if err := s.check(in, join, key); err != nil {
		return refuse(http.StatusConflict, "the certificate for request %s: %v", in.ID, err)
	}
	var ops []*fsmpb.Mutation
	if address := value(join, httpValue); address != "" {
		old := s.cfg.Node.Token(PeerRecord(join.Name))
		ops = append(ops, PutPeer(Peer{join.Name, address, PeerOf(old).NonVoter}, old)...)
	}
	ops = append(ops, record(certRecord+in.ID, join.Name, sum(in.Certificate), join.ExpiresMs, putBytes(in.Certificate)))
	code, err := s.propose(ctx, ops...)
	if err != nil {
		return err
	}
	switch code {
	case fsm.OK:
		s.cfg.Log.Info("issued the certificate of a node", "node", join.Name, "renewal", isRenewal(in.ID))
		s.cfg.Audit(Act{Action: "issue certificate", Node: join.Name, Status: http.StatusOK})
	case fsm.Duplicate, fsm.IDTaken: // another one has signed it
	default:
		return refuse(http.StatusConflict, "%v", code.Err())
	}
	return nil
}

// check returns an error unless the certificate is the answer to a request.
func (s *Server) check(in Signed, join, key *fsm.Token) error {
	roots, err := certs.ReadList(s.cfg.Files.CA)
	if err != nil {
		return err
	}
	c, err := x509.ParseCertificate(in.Certificate)
	if err != nil {
		return err
	}
	r, err := request(in.ID, join, key)
	if err != nil {
		return err
	}
	if !certs.IssuedAt(c).Equal(r.Made) || key.CreatedMs <= s.revokedAt(join.Name) {
		return errors.New("it was issued before a revocation, or for another request")
	}
	return (&certs.Expected{Name: r.Node, Hosts: r.Hosts, Public: r.Key}).Check(c, roots, time.Now())
}
