package membership

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"osqueue/cluster/snapshot"
	"osqueue/fsm"
	"osqueue/internal/web"
	"osqueue/storage"
)

// Peer is the name of a node and the address of its HTTP API.
type Peer struct {
	Name string
	HTTP string // host:port
}

// Peers calls the nodes that --peers names. It needs no raft. Safe for concurrent use.
type Peers struct {
	self   string
	named  []Peer
	client *http.Client
	joined func(name string) string // address of a node that has joined with a token, or ""
}

// NewPeers returns the peers of the node self. named may contain the node itself.
func NewPeers(self string, named []Peer, client *http.Client) *Peers {
	return &Peers{self: self, named: named, client: client, joined: func(string) string { return "" }}
}

// Joined sets the function that returns the address of a node which has joined with a token, or
// "". It must be called before all methods but Seed and AskAll.
func (p *Peers) Joined(address func(name string) string) { p.joined = address }

// HTTP returns the HTTP address of a peer by name, or "" if it is neither listed nor has joined
// with a token.
func (p *Peers) HTTP(name string) string {
	for _, peer := range p.named {
		if peer.Name == name {
			return peer.HTTP
		}
	}
	return p.joined(name)
}

// Named reports whether --peers names a node.
func (p *Peers) Named(name string) bool {
	return slices.ContainsFunc(p.named, func(peer Peer) bool { return peer.Name == name })
}

// refusedError is an answer with a status other than 2xx.
type refusedError struct {
	text   string
	leader string // HTTP address of the leader, as the peer knows it; "" if unknown
}

// Error implements error.
func (e *refusedError) Error() string { return e.text }

// Refused returns the error for an answer with a web.Refusal. It quotes a body of another
// form as it is.
func Refused(host, status string, body []byte) error {
	r := web.ReadRefusal(body)
	return &refusedError{text: fmt.Sprintf("%s answers %s: %s", host, status, r.Message), leader: r.Leader}
}

// AskAll asks all other nodes of --peers for their identity, in parallel. It returns
// the identities of those that answered, and an error that names the others.
func (p *Peers) AskAll(ctx context.Context) ([]Identity, error) {
	answers := make([]Identity, len(p.named))
	errs := make([]error, len(p.named))
	var wg sync.WaitGroup
	for i, peer := range p.named {
		if peer.Name == p.self {
			continue
		}
		wg.Go(func() {
			answers[i], errs[i] = p.Ask(ctx, peer.HTTP)
			if errs[i] == nil && answers[i].Name != peer.Name {
				errs[i] = fmt.Errorf("the node at %s has the name %q, not %q: give every node the same --peers", peer.HTTP, answers[i].Name, peer.Name)
			}
		})
	}
	wg.Wait()
	var peers []Identity
	for i, peer := range p.named {
		if peer.Name != p.self && errs[i] == nil {
			peers = append(peers, answers[i])
		}
	}
	return peers, errors.Join(errs...)
}

// Ask returns the identity of the node at an HTTP address.
func (p *Peers) Ask(ctx context.Context, address string) (id Identity, err error) {
	err = p.call(ctx, http.MethodGet, address, Path+"identity", nil, &id)
	return id, err
}

// Post sends an empty request to the node at an HTTP address and decodes its answer.
func (p *Peers) Post(ctx context.Context, address, path string, answer any) error {
	return p.call(ctx, http.MethodPost, address, path, nil, answer)
}

// call sends a request to the node at an HTTP address, with body as JSON unless it is nil, and decodes
// its answer into answer, unless that is nil.
func (p *Peers) call(ctx context.Context, method, address, path string, body, answer any) error {
	var sent io.Reader = http.NoBody
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return err
		}
		sent = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://"+address+path, sent)
	if err != nil {
		return err
	}
	resp, err := web.Do(p.client, req)
	if err != nil {
		return fmt.Errorf("%s: %w", address, err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(io.LimitReader(resp.Body, BodyMax))
	if err != nil {
		return fmt.Errorf("%s: %w", address, err)
	}
	if resp.StatusCode/100 != 2 {
		return Refused(address, resp.Status, got)
	}
	if answer == nil {
		return nil
	}
	if err := json.Unmarshal(got, answer); err != nil {
		return fmt.Errorf("%s does not answer as a node of this cluster: %w", address, err)
	}
	return nil
}

// A new node that finds a running cluster starts from the state of that cluster in the bucket.
// The leader then has to send only the log behind it, and not the whole state. If that fails for
// any reason, the node starts empty, and the leader sends everything.

// seedTimeout bounds how long reading the state may delay the start of a new node.
const seedTimeout = 2 * time.Minute

// seedAsk bounds how long a new node asks for a living cluster. If all nodes of a cluster are new, each
// waits here for the others, and no node serves yet.
const seedAsk = 500 * time.Millisecond

// SeedOptions configure Peers.Seed.
type SeedOptions struct {
	Bucket storage.Bucket
	Key    string // of the document
	Dir    string // data directory of the new node
	Log    hclog.Logger
}

// Seed writes the state in the bucket as the first snapshot in the data directory of a new node,
// if the cluster of a peer wrote it. If that fails, Seed only logs the reason.
func (p *Peers) Seed(ctx context.Context, o SeedOptions) {
	if len(p.named) < 2 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, seedTimeout)
	defer cancel()
	asking, asked := context.WithTimeout(ctx, seedAsk)
	peers, _ := p.AskAll(asking) // peers that do not answer are skipped
	asked()
	var errs []error
	for _, who := range peers {
		if who.Empty || who.Cluster == "" {
			continue
		}
		meta, err := snapshot.Seed(ctx, snapshot.SeedOptions{
			Bucket: o.Bucket, Key: o.Key, Dir: o.Dir, Cluster: who.Cluster, Logger: o.Log.Named("snapshot"),
			Confirm: func(ctx context.Context, lsn fsm.LSN) (snapshot.Place, error) {
				return p.Confirm(ctx, who.HTTPAddress, lsn)
			},
		})
		if err == nil {
			o.Log.Info("this new node starts from the state in the bucket", "index", meta.Index, "bytes", meta.Size)
			return
		}
		errs = append(errs, err)
	}
	if len(errs) > 0 {
		o.Log.Info("this new node gets its state from the leader, not from the bucket", "reason", errors.Join(errs...))
	}
}

// Confirm asks the node at address, which must lead the cluster, for the place of an entry in
// raft's log. It returns an error if the log of that node does not continue behind the entry.
func (p *Peers) Confirm(ctx context.Context, address string, lsn fsm.LSN) (at snapshot.Place, err error) {
	err = p.call(ctx, http.MethodGet, address, Path+"history/"+lsn.String(), nil, &at)
	return at, err
}

// Path is the path of the requests between nodes.
const Path = "/cluster/v1/"

// BodyMax bounds the body of a message between nodes, in bytes.
const BodyMax = 64 << 10

// ServeIdentity answers who this node is.
func (n *Members) ServeIdentity(w http.ResponseWriter, _ *http.Request) {
	web.WriteJSON(w, http.StatusOK, n.Identity())
}

// ServeJoin makes the node whose identity is in the body a member of the cluster, on the leader.
func (n *Members) ServeJoin(w http.ResponseWriter, r *http.Request) {
	var who Identity
	if err := json.NewDecoder(io.LimitReader(r.Body, BodyMax)).Decode(&who); err != nil {
		web.WriteJSON(w, http.StatusBadRequest, web.Refusal{Message: "the body is not the identity of a node: " + err.Error()})
		return
	}
	switch err := n.admit(r.Context(), who); {
	case err == nil:
		w.WriteHeader(http.StatusNoContent)
	case errors.Is(err, errNotLeader):
		web.WriteJSON(w, http.StatusMisdirectedRequest, web.Refusal{Message: err.Error(), Leader: n.LeaderHTTP()})
	default:
		web.WriteJSON(w, http.StatusConflict, web.Refusal{Message: err.Error()})
	}
}

// ServeHistory answers with the place of an entry in raft's log, if the log of this node continues
// behind it: its path has the value lsn. Only the leader may answer: another node may have been left
// behind when the cluster was recovered from a minority, and its log may contain a lost history.
func (n *Members) ServeHistory(w http.ResponseWriter, r *http.Request) {
	lsn, err := fsm.ParseLSN(r.PathValue("lsn"))
	if err != nil {
		web.WriteJSON(w, http.StatusBadRequest, web.Refusal{Message: err.Error()})
		return
	}
	at := snapshot.Place{Term: lsn.Term - n.do.Meta().TermBase}
	switch {
	case n.raft.State() != raft.Leader:
		web.WriteJSON(w, http.StatusMisdirectedRequest, web.Refusal{Message: errNotLeader.Error(), Leader: n.LeaderHTTP()})
		return
	case !n.do.Agrees(n.raft.CommitIndex(), at.Term, lsn.Index):
		web.WriteJSON(w, http.StatusConflict, web.Refusal{Message: fmt.Sprintf("the log of this node does not continue after entry %s", lsn)})
		return
	}
	members := n.raft.GetConfiguration() // of the end of the log, which has the entry
	at.Configuration, at.ConfigurationIndex = members.Configuration(), members.Index()
	if members.Error() != nil || at.ConfigurationIndex > lsn.Index {
		web.WriteJSON(w, http.StatusConflict, web.Refusal{Message: fmt.Sprintf("the members have changed since entry %s", lsn)})
		return
	}
	web.WriteJSON(w, http.StatusOK, at)
}
