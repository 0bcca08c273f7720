package enroll

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/internal/auth/certs"
)

// The beginnings of the ids of records.
const (
	joinRecord = "join/"
	keyRecord  = "key/"
	certRecord = "cert/"
	peerRecord = "peer/"
)

// renewalID returns the id of the renewal of a node's certificate. Ids of tokens have no dot.
func renewalID(name string) string { return "n." + name }

func isRenewal(id string) bool { return strings.HasPrefix(id, "n.") }

// The values of a record are texts NAME=VALUE in its Types. A value longer than a text may be
// is in pieces.
const (
	hostValue     = "host"
	httpValue     = "http"
	nonVoterValue = "nonvoter"
	lifetimeValue = "lifetime" // ms
	bytesValue    = "bytes"
	pieceBytes    = 240
)

// values returns the values of a record with that name, in order.
func values(t *fsm.Token, name string) []string {
	var out []string
	for _, text := range t.Types {
		if n, v, ok := strings.Cut(text, "="); ok && n == name {
			out = append(out, v)
		}
	}
	return out
}

func value(t *fsm.Token, name string) string {
	if all := values(t, name); len(all) > 0 {
		return all[0]
	}
	return ""
}

func putBytes(data []byte) []string {
	var out []string
	for piece := range slices.Chunk(base64.RawStdEncoding.AppendEncode(nil, data), pieceBytes) {
		out = append(out, bytesValue+"="+string(piece))
	}
	return out
}

// issue returns the values of a certificate that a node asks for.
func issue(lifetime int64, hosts []string) []string {
	texts := []string{lifetimeValue + "=" + strconv.FormatInt(lifetime, 10)}
	for _, h := range hosts {
		texts = append(texts, hostValue+"="+h)
	}
	return texts
}

func getBytes(t *fsm.Token) ([]byte, error) {
	return base64.RawStdEncoding.DecodeString(strings.Join(values(t, bytesValue), ""))
}

// record returns the mutation that makes a record.
func record(id, name string, hash []byte, expires int64, texts []string) *fsmpb.Mutation {
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_CreateToken{CreateToken: &fsmpb.CreateToken{Token: &fsmpb.Token{
		Id: id, Hash: hash, Role: uint32(fsm.RoleMark), Name: name, MadeBy: "enroll", ExpiresMs: expires, Types: texts,
	}}}}
}

func sum(data []byte) []byte {
	h := sha256.Sum256(data)
	return h[:]
}

// drop returns the mutation that removes a record.
func drop(id string) *fsmpb.Mutation {
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_RevokeToken{RevokeToken: &fsmpb.RevokeToken{Id: id}}}
}

// Peer is the record of a node that may be a member of the cluster.
type Peer struct {
	Name     string
	HTTP     string // host:port; "": there is no record
	NonVoter bool   // it stays without a vote
}

// PeerRecord returns the id of the record of a node.
func PeerRecord(name string) string { return peerRecord + name }

// PeerOf returns the content of a record; t may be nil.
func PeerOf(t *fsm.Token) Peer {
	if t == nil {
		return Peer{}
	}
	return Peer{Name: t.Name, HTTP: value(t, httpValue), NonVoter: value(t, nonVoterValue) != ""}
}

// Peers returns all records of nodes.
func Peers(v *fsm.View) (out []Peer) {
	for t := range v.Tokens(peerRecord) {
		if !strings.HasPrefix(t.Id, peerRecord) {
			break
		}
		out = append(out, PeerOf(t))
	}
	return out
}

// PutPeer returns the mutations that store a record; old is the present one, or nil.
func PutPeer(p Peer, old *fsm.Token) (ops []*fsmpb.Mutation) {
	if old != nil {
		ops = append(ops, DropPeer(p.Name))
	}
	texts := []string{httpValue + "=" + p.HTTP}
	if p.NonVoter {
		texts = append(texts, nonVoterValue+"=yes")
	}
	return append(ops, record(PeerRecord(p.Name), p.Name, sum([]byte(p.HTTP)), 0, texts))
}

// DropPeer returns the mutation that removes the record of a node.
func DropPeer(name string) *fsmpb.Mutation { return drop(PeerRecord(name)) }

// Request is a request for a certificate that has no answer yet.
type Request struct {
	ID       string    `json:"id"`
	Node     string    `json:"node"`
	Renewal  bool      `json:"renewal"`
	Hosts    []string  `json:"hosts"`
	Lifetime int64     `json:"lifetimeMs"`
	Key      []byte    `json:"key"` // public, in PKIX form
	Made     time.Time `json:"made"`
}

// request reads the request of two records.
func request(id string, join, key *fsm.Token) (Request, error) {
	public, err := getBytes(key)
	if err != nil {
		return Request{}, err
	}
	lifetime, err := strconv.ParseInt(value(join, lifetimeValue), 10, 64)
	if err != nil || lifetime <= 0 {
		return Request{}, errors.New("the record has no lifetime")
	}
	return Request{
		ID: id, Node: join.Name, Renewal: isRenewal(id), Hosts: values(join, hostValue), Lifetime: lifetime,
		Key: public, Made: time.UnixMilli(key.CreatedMs),
	}, nil
}

// Pending returns the requests of a state that wait for an answer, at most pendingMax.
func Pending(v *fsm.View) []Request {
	var out []Request
	for key := range v.Tokens(keyRecord) {
		id, ok := strings.CutPrefix(key.Id, keyRecord)
		if !ok || len(out) == pendingMax {
			break
		}
		join := v.Token(joinRecord + id)
		if join == nil || v.Token(certRecord+id) != nil {
			continue
		}
		if revoked := v.Token(fsm.RevokedMark(join.Name)); revoked != nil && key.CreatedMs <= revoked.CreatedMs {
			continue // it will never have one
		}
		if r, err := request(id, join, key); err == nil {
			out = append(out, r)
		}
	}
	return out
}

// pendingMax bounds the requests that are shown and signed at a time.
const pendingMax = 100

// Sign answers a request with the key of the CA.
func Sign(a *certs.Authority, r *Request) (*x509.Certificate, error) {
	lifetime := time.Duration(r.Lifetime) * time.Millisecond
	return a.SignNode(certs.Request{Kind: certs.Node, Name: r.Node, Hosts: r.Hosts, Lifetime: lifetime}, r.Key, r.Made)
}
