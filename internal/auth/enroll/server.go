package enroll

import (
	"context"
	"crypto/subtle"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/time/rate"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/internal/auth"
	"osqueue/internal/auth/certs"
)

// The paths of the requests, all POST with JSON bodies.
const (
	Path        = "/cluster/v1/certificate/"
	CAPath      = Path + "ca"         // anybody
	JoinPath    = Path + "join"       // the owner of a join token
	RenewPath   = Path + "renew"      // nodes
	TokenPath   = Path + "join-token" // admins
	PendingPath = Path + "pending"    // admins
	SignPath    = Path + "sign"       // admins and nodes: the certificate proves that the CA has signed it
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
	Node  Node
	Files certs.Files
	// Peers returns the HTTP addresses of nodes, and the value of --peers.
	Peers func() (addresses []string, peers string)
	Log   hclog.Logger
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
	HTTP     string   `json:"http"` // address of the node's HTTP port
	TTL      int64    `json:"ttlMs,omitzero"`
	Lifetime int64    `json:"lifetimeMs,omitzero"` // of the certificate
}

// Made is the answer to NewToken.
type Made struct {
	ID      string `json:"id"`
	Token   string `json:"token"`
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
}

// Signed is the body of a request that answers one for a certificate.
type Signed struct {
	ID          string `json:"id"`
	Certificate []byte `json:"certificate"` // DER
}

// Refusal is the body of an answer that refuses a request.
type Refusal struct {
	Message string `json:"message"`
	Leader  string `json:"leader,omitempty"`
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

// Open serves the requests that need no access token.
func (s *Server) Open() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+CAPath, handler(s, func(context.Context, *http.Request, struct{}) (Answer, error) { return s.ca() }))
	mux.HandleFunc("POST "+JoinPath, handler(s, s.join))
	return mux
}

// Admin serves the requests of admins.
func (s *Server) Admin() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+TokenPath, handler(s, s.create))
	mux.HandleFunc("POST "+PendingPath, handler(s, func(context.Context, *http.Request, struct{}) ([]Request, error) {
		return append([]Request{}, Pending(s.cfg.Node.View())...), nil
	}))
	mux.HandleFunc("POST "+SignPath, handler(s, s.signed))
	return mux
}

// Nodes serves the requests of other nodes, whose connections have certificates.
func (s *Server) Nodes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+RenewPath, handler(s, s.renewal))
	mux.HandleFunc("POST "+SignPath, handler(s, s.signed))
	return mux
}

// handler decodes a request for do, which runs on the active leader only, and encodes its
// answer.
func handler[In, Out any](s *Server, do func(context.Context, *http.Request, In) (Out, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var in In
		leader, self := s.cfg.Node.Leader()
		if !self {
			write(w, http.StatusMisdirectedRequest, Refusal{Message: errNotLeader.Error(), Leader: leader})
			return
		}
		err := json.NewDecoder(io.LimitReader(r.Body, bodyMax)).Decode(&in)
		if err != nil {
			err = refuse(http.StatusBadRequest, "the body: %v", err)
		}
		var out Out
		if err == nil {
			out, err = do(r.Context(), r, in)
		}
		var refused *refusal
		switch {
		case err == nil:
			write(w, http.StatusOK, out)
		case errors.As(err, &refused):
			write(w, refused.status, Refusal{Message: err.Error()})
		default: // not committed, or not known whether: all requests may be repeated
			write(w, http.StatusServiceUnavailable, Refusal{Message: err.Error()})
		}
	}
}

func write(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // if the answer does not arrive, the caller asks again
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
	return Answer{CA: string(certs.Encode(list))}, err
}

// create makes a join token.
func (s *Server) create(ctx context.Context, _ *http.Request, in NewToken) (out Made, err error) {
	if in.TTL == 0 {
		in.TTL = DefaultTTL.Milliseconds()
	}
	if in.Lifetime == 0 {
		in.Lifetime = certs.NodeLifetime.Milliseconds()
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
	t.Addresses, _ = s.cfg.Peers()
	t.Addresses = t.Addresses[:min(len(t.Addresses), addressesMax)]
	texts := []string{httpValue + "=" + in.HTTP, lifetimeValue + "=" + strconv.FormatInt(in.Lifetime, 10)}
	for _, h := range in.Hosts {
		texts = append(texts, hostValue+"="+h)
	}
	expires := s.cfg.Node.Now() + in.TTL
	code, err := s.propose(ctx, record(joinRecord+t.Secret.ID, in.Node, []byte(t.Secret.Hash), expires, texts))
	if err != nil {
		return out, err
	}
	if err := code.Err(); err != nil {
		return out, refuse(http.StatusConflict, "%v", err)
	}
	s.cfg.Log.Info("made a join token", "id", t.Secret.ID, "node", in.Node, "hosts", in.Hosts)
	return Made{ID: t.Secret.ID, Token: t.String(), Expires: expires}, nil
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
			return errors.New("a host is too long")
		}
	}
	return errors.Join(certs.CheckName(in.Node), certs.CheckHosts(in.Hosts))
}

var errNoToken = refuse(http.StatusForbidden, "the join token does not exist, has expired, or was made before the certificates of its node were revoked: "+
	"make another one with: osqueue cert join-token")

// noHash is compared with secrets of tokens that do not exist.
var noHash = auth.New().Hash

// join answers the owner of a join token.
func (s *Server) join(ctx context.Context, r *http.Request, in CSR) (Answer, error) {
	secret, err := auth.Parse(in.Secret)
	if err != nil {
		return Answer{}, refuse(http.StatusForbidden, "the secret of the join token is damaged")
	}
	hash := noHash
	t := s.cfg.Node.Token(joinRecord + secret.ID)
	if t != nil {
		hash = t.Hash
	}
	if match := subtle.ConstantTimeCompare([]byte(hash), []byte(secret.Hash)) == 1; t == nil || !match || t.CreatedAt <= s.revokedAt(t.Name) {
		s.warn("refused a join token", "client", r.RemoteAddr, "id", secret.ID)
		return Answer{}, errNoToken
	}
	public, err := certs.ReadRequest(in.Request)
	if err != nil {
		return Answer{}, refuse(http.StatusBadRequest, "%v", err)
	}
	if s.cfg.Node.Token(keyRecord+secret.ID) == nil {
		code, err := s.propose(ctx, record(keyRecord+secret.ID, t.Name, sum(public), t.ExpiresAt, putBytes(public)))
		switch {
		case err != nil:
			return Answer{}, err
		case code == fsm.OK:
			s.cfg.Log.Warn("a join token was used", "id", secret.ID, "node", t.Name, "client", r.RemoteAddr)
		case code == fsm.Duplicate, code == fsm.IDTaken: // answer looks which key was first
		default:
			return Answer{}, refuse(http.StatusForbidden, "%v", code.Err())
		}
	}
	out, err := s.answer(secret.ID, public, r.RemoteAddr)
	if self := t.Name + "="; out.Certificate != nil && !strings.Contains(","+out.Peers, ","+self) {
		out.Peers += "," + self + value(t, httpValue)
	}
	out.HTTP = value(t, httpValue)
	return out, err
}

// answer returns the answer to the request with an id.
func (s *Server) answer(id string, public []byte, client string) (Answer, error) {
	key, cert := s.cfg.Node.Token(keyRecord+id), s.cfg.Node.Token(certRecord+id)
	if key == nil {
		return Answer{}, errNoToken
	}
	if key.Hash != string(sum(public)) {
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
	_, out.Peers = s.cfg.Peers()
	return out, err
}

// renewal answers a node that wants a new certificate.
func (s *Server) renewal(ctx context.Context, r *http.Request, in CSR) (Answer, error) {
	peer, ok := certs.PeerOf(r.TLS)
	if !ok || peer.Kind != certs.Node {
		return Answer{}, refuse(http.StatusForbidden, "a node renews its certificate on a connection with it")
	}
	return s.renew(ctx, peer.Name, r.TLS.VerifiedChains[0][0], in.Request)
}

// renew answers the node name, whose certificate is old.
func (s *Server) renew(ctx context.Context, name string, old *x509.Certificate, csr []byte) (Answer, error) {
	public, err := certs.ReadRequest(csr)
	if err != nil {
		return Answer{}, refuse(http.StatusBadRequest, "%v", err)
	}
	id := renewalID(name)
	if key := s.cfg.Node.Token(keyRecord + id); key != nil && key.Hash == string(sum(public)) {
		return s.answer(id, public, name)
	}
	lifetime := old.NotAfter.Sub(certs.IssuedAt(old)).Milliseconds()
	texts := []string{lifetimeValue + "=" + strconv.FormatInt(max(lifetime, 1), 10)}
	for _, h := range certs.HostsOf(old) {
		texts = append(texts, hostValue+"="+h)
	}
	expires := max(old.NotAfter.UnixMilli(), s.cfg.Node.Now()+time.Minute.Milliseconds())
	ops := s.dropAll(id)
	ops = append(ops,
		record(joinRecord+id, name, sum(public), expires, texts),
		record(keyRecord+id, name, sum(public), expires, putBytes(public)))
	code, err := s.propose(ctx, ops...)
	if err != nil {
		return Answer{}, err
	}
	if code == fsm.OK {
		s.cfg.Log.Info("a node asks for a new certificate", "node", name, "end of the present one", old.NotAfter)
	} else if err := code.Err(); err != nil {
		return Answer{}, refuse(http.StatusConflict, "%v", err)
	}
	return Answer{Pending: true}, nil
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
		return t.CreatedAt
	}
	return 0
}

// signed stores the certificate of a request.
func (s *Server) signed(ctx context.Context, _ *http.Request, in Signed) (struct{}, error) {
	return struct{}{}, s.store(ctx, in)
}

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
		if s.cfg.Node.Token(PeerRecord(join.Name)) != nil {
			ops = append(ops, drop(PeerRecord(join.Name)))
		}
		ops = append(ops, record(PeerRecord(join.Name), join.Name, sum([]byte(address)), 0, []string{httpValue + "=" + address}))
	}
	ops = append(ops, record(certRecord+in.ID, join.Name, sum(in.Certificate), join.ExpiresAt, putBytes(in.Certificate)))
	code, err := s.propose(ctx, ops...)
	if err != nil {
		return err
	}
	switch code {
	case fsm.OK:
		s.cfg.Log.Info("issued the certificate of a node", "node", join.Name, "renewal", isRenewal(in.ID))
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
	if !certs.IssuedAt(c).Equal(r.Made) || key.CreatedAt <= s.revokedAt(join.Name) {
		return errors.New("it is from before a revocation, or was not made for this request")
	}
	return (&certs.Expected{Name: r.Node, Hosts: r.Hosts, Public: r.Key}).Check(c, roots, time.Now())
}
