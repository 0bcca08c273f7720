package membership

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
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
	Name string // "": a contact, which may be any node of the cluster
	HTTP string // host:port, or of a contact the name of an SRV record behind SRVPrefix
}

// SRVPrefix marks the name of an SRV record. The nodes at its targets are contacts.
const SRVPrefix = "srv:"

// Peers calls the nodes that --peers or the state names. It needs no raft. Safe for concurrent use.
type Peers struct {
	self     string
	named    []Peer
	client   *http.Client
	admitted func(name string) string // address in the record of a node, or ""
	all      func() []Peer            // the addresses in all records
}

// NewPeers returns the peers of the node self. named may contain the node itself.
func NewPeers(self string, named []Peer, client *http.Client) *Peers {
	return &Peers{self: self, named: named, client: client, admitted: func(string) string { return "" }, all: func() []Peer { return nil }}
}

// Admitted sets the functions that return the address in the record of a node, or "", and those
// in all records. It must be called before all methods but Seed and AskAll.
func (p *Peers) Admitted(address func(name string) string, all func() []Peer) {
	p.admitted, p.all = address, all
}

// HTTP returns the HTTP address of a node by name: that of its record, or else that of --peers, or "".
func (p *Peers) HTTP(name string) string {
	if places := p.places(name); len(places) > 0 {
		return places[0]
	}
	return ""
}

// places returns the addresses at which the operator says that a node is.
func (p *Peers) places(name string) (out []string) {
	if a := p.admitted(name); a != "" {
		out = append(out, a)
	}
	for _, peer := range p.named {
		if peer.Name == name && !slices.Contains(out, peer.HTTP) {
			out = append(out, peer.HTTP)
		}
	}
	return out
}

// everybody returns all addresses but this node's own. err says which SRV records cannot be resolved.
func (p *Peers) everybody(ctx context.Context) (out []Peer, err error) {
	var errs []error
	for _, peer := range append(p.all(), p.named...) {
		switch record, isSRV := strings.CutPrefix(peer.HTTP, SRVPrefix); {
		case peer.Name == p.self:
		case isSRV:
			_, targets, err := net.DefaultResolver.LookupSRV(ctx, "", "", record)
			errs = append(errs, err)
			for _, t := range targets {
				out = append(out, Peer{HTTP: net.JoinHostPort(strings.TrimSuffix(t.Target, "."), strconv.Itoa(int(t.Port)))})
			}
		default:
			out = append(out, peer)
		}
	}
	seen := make(map[string]bool)
	return slices.DeleteFunc(out, func(peer Peer) bool {
		again := seen[peer.HTTP]
		seen[peer.HTTP] = true
		return again
	}), errors.Join(errs...)
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

// AskAll asks all other nodes of --peers and of the records for their identity, in parallel. It returns
// the identities of those that answered, each once, and an error that names the others.
func (p *Peers) AskAll(ctx context.Context) ([]Identity, error) {
	all, err := p.everybody(ctx)
	answers, errs := make([]Identity, len(all)), make([]error, len(all))
	var wg sync.WaitGroup
	for i, peer := range all {
		wg.Go(func() {
			answers[i], errs[i] = p.Ask(ctx, peer.HTTP)
			if errs[i] == nil && peer.Name != "" && answers[i].Name != peer.Name {
				errs[i] = fmt.Errorf("the node at %s has the name %q, not %q: check --peers, or osqueue cluster ls", peer.HTTP, answers[i].Name, peer.Name)
			}
		})
	}
	wg.Wait()
	var peers []Identity
	for i := range all {
		who := answers[i]
		known := slices.ContainsFunc(peers, func(o Identity) bool { return o.ServerID == who.ServerID })
		if errs[i] == nil && who.Name != p.self && !known {
			peers = append(peers, who)
		}
	}
	return peers, errors.Join(append(errs, err)...)
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
	if len(p.named) == 0 || len(p.named) == 1 && p.named[0].Name == p.self {
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
