package cluster

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

	"osqueue/fsm"
)

// Identity is the answer of a node to other nodes that ask for its identity.
type Identity struct {
	Name        string   `json:"name"`
	ServerID    string   `json:"serverId"`
	RaftAddress string   `json:"raftAddress"`
	HTTPAddress string   `json:"httpAddress"`
	Empty       bool     `json:"empty"`   // true if it was never part of a cluster
	Applied     uint64   `json:"applied"` // raft index
	Members     []string `json:"members"` // server ids
	Cluster     string   `json:"cluster"` // id of the cluster in the log; "" before the first broker

	KnownLevel uint32 `json:"knownLevel,omitempty"` // highest feature level of the release; 0: the release knows none
	HoldLevel  uint32 `json:"holdLevel,omitempty"`  // Config.FeatureLevel
	ClockNs    int64  `json:"clockNs"`              // wall clock, ns since 1970; 0 on nodes that do not report it

	State *SumText `json:"state,omitempty"` // the newest checksum of its state; nil: none
}

func (i *Identity) member(serverID string) bool {
	for _, m := range i.Members {
		if m == serverID {
			return true
		}
	}
	return false
}

// Identity returns the identity of this node.
func (n *Node) Identity() Identity {
	id := Identity{
		Name:        n.cfg.Name,
		ServerID:    string(n.id),
		RaftAddress: string(n.net.LocalAddr()),
		HTTPAddress: n.cfg.HTTPAdvertise,
		Empty:       n.empty(),
		Applied:     n.raft.AppliedIndex(),
		Cluster:     n.replica.meta().Cluster,
		KnownLevel:  fsm.MaxLevel,
		HoldLevel:   n.cfg.FeatureLevel,
		ClockNs:     n.cfg.Clock().UnixNano(),
		State:       sumText(n.sums.latest()),
	}
	for _, s := range n.raft.GetConfiguration().Configuration().Servers {
		id.Members = append(id.Members, string(s.ID))
	}
	return id
}

// PeerPath is the path under which PeerHandler is to be mounted.
const PeerPath = "/cluster/v1/"

// identityMax bounds the body of a message between nodes, in bytes.
const identityMax = 64 << 10

// PeerHandler serves the requests of other nodes, under PeerPath.
func (n *Node) PeerHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+PeerPath+"identity", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, n.Identity())
	})
	mux.HandleFunc("POST "+PeerPath+"join", n.serveJoin)
	mux.HandleFunc("POST "+PeerPath+"clock/set", n.serveSetClock)
	mux.HandleFunc("GET "+PeerPath+"history/{term}/{index}", n.serveHistory)
	return mux
}

func (n *Node) serveJoin(w http.ResponseWriter, r *http.Request) {
	var who Identity
	if err := json.NewDecoder(io.LimitReader(r.Body, identityMax)).Decode(&who); err != nil {
		writeJSON(w, http.StatusBadRequest, refusal{Message: "not an identity: " + err.Error()})
		return
	}
	switch err := n.admit(r.Context(), who); {
	case err == nil:
		w.WriteHeader(http.StatusNoContent)
	case errors.Is(err, ErrNotLeader):
		writeJSON(w, http.StatusMisdirectedRequest, refusal{Message: err.Error(), Leader: n.leaderHTTP()})
	default:
		writeJSON(w, http.StatusConflict, refusal{Message: err.Error()})
	}
}

// refusal is the body of an answer that refuses a request.
type refusal struct {
	Message string `json:"message"`
	Leader  string `json:"leader,omitempty"`
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // if the answer does not arrive, the peer asks again
}

// refusedError is an answer with a status other than 2xx.
type refusedError struct {
	text   string
	leader string // HTTP address of the leader, as the peer knows it; "" if unknown
}

// Error implements error.
func (e *refusedError) Error() string { return e.text }

// refused returns the error for an answer with a refusal. It quotes a body of another
// form as it is.
func refused(host, status string, body []byte) error {
	var r refusal
	if err := json.Unmarshal(body, &r); err != nil || r.Message == "" {
		r.Message = string(bytes.TrimSpace(body))
	}
	return &refusedError{text: fmt.Sprintf("%s answers %s: %s", host, status, r.Message), leader: r.Leader}
}

// askPeers asks all other nodes of --peers for their identity, in parallel. It returns
// the identities of those that answered, and an error that names the others.
func (n *Node) askPeers(ctx context.Context) ([]Identity, error) {
	answers := make([]Identity, len(n.cfg.Peers))
	errs := make([]error, len(n.cfg.Peers))
	var wg sync.WaitGroup
	for i, p := range n.cfg.Peers {
		if p.Name == n.cfg.Name {
			continue
		}
		wg.Go(func() {
			answers[i], errs[i] = n.ask(ctx, p.HTTP)
			if errs[i] == nil && answers[i].Name != p.Name {
				errs[i] = fmt.Errorf("%s calls itself %q, not %q: give every node the same --peers", p.HTTP, answers[i].Name, p.Name)
			}
		})
	}
	wg.Wait()
	var peers []Identity
	for i, p := range n.cfg.Peers {
		if p.Name != n.cfg.Name && errs[i] == nil {
			peers = append(peers, answers[i])
		}
	}
	return peers, errors.Join(errs...)
}

func (n *Node) ask(ctx context.Context, address string) (id Identity, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+PeerPath+"identity", nil)
	if err != nil {
		return id, err
	}
	return id, n.call(req, &id)
}

// askToJoin asks the peers, and the leader that they name, to admit this node.
func (n *Node) askToJoin(ctx context.Context, peers []Identity) error {
	var addresses []string
	for _, p := range peers {
		if !p.Empty {
			addresses = append(addresses, p.HTTPAddress)
		}
	}
	var errs []error
	for i := 0; i < len(addresses); i++ {
		err := n.join(ctx, addresses[i])
		if err == nil {
			return nil
		}
		errs = append(errs, err)
		var r *refusedError
		if errors.As(err, &r) && r.leader != "" && !slices.Contains(addresses, r.leader) && len(addresses) <= len(peers) {
			addresses = append(addresses, r.leader)
		}
	}
	return errors.Join(errs...)
}

func (n *Node) join(ctx context.Context, address string) error {
	body, err := json.Marshal(n.Identity())
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+PeerPath+"join", bytes.NewReader(body))
	if err != nil {
		return err
	}
	return n.call(req, nil)
}

// call sends a request to a peer and decodes its answer into answer, unless answer is
// nil.
func (n *Node) call(req *http.Request, answer any) error {
	resp, err := n.cfg.Client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, identityMax))
	if err != nil {
		return fmt.Errorf("%s: %w", req.URL.Host, err)
	}
	if resp.StatusCode/100 != 2 {
		return refused(req.URL.Host, resp.Status, body)
	}
	if answer == nil {
		return nil
	}
	if err := json.Unmarshal(body, answer); err != nil {
		return fmt.Errorf("%s does not speak as a node of this cluster: %w", req.URL.Host, err)
	}
	return nil
}
