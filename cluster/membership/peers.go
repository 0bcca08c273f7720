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

	"osqueue/internal/web"
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
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+Path+"identity", nil)
	if err != nil {
		return id, err
	}
	return id, p.call(req, &id)
}

// join asks the node at an HTTP address to admit the node me.
func (p *Peers) join(ctx context.Context, address string, me Identity) error {
	body, err := json.Marshal(me)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+Path+"join", bytes.NewReader(body))
	if err != nil {
		return err
	}
	return p.call(req, nil)
}

// Post sends an empty request to the node at an HTTP address and decodes its answer.
func (p *Peers) Post(ctx context.Context, address, path string, answer any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+path, http.NoBody)
	if err != nil {
		return err
	}
	return p.call(req, answer)
}

// call sends a request to a peer and decodes its answer into answer, unless answer is
// nil.
func (p *Peers) call(req *http.Request, answer any) error {
	resp, err := web.Do(p.client, req)
	if err != nil {
		return fmt.Errorf("%s: %w", req.URL.Host, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, BodyMax))
	if err != nil {
		return fmt.Errorf("%s: %w", req.URL.Host, err)
	}
	if resp.StatusCode/100 != 2 {
		return Refused(req.URL.Host, resp.Status, body)
	}
	if answer == nil {
		return nil
	}
	if err := json.Unmarshal(body, answer); err != nil {
		return fmt.Errorf("%s does not answer as a node of this cluster: %w", req.URL.Host, err)
	}
	return nil
}
