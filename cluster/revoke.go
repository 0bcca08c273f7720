package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"osqueue/cluster/membership"
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/internal/auth"
	"osqueue/internal/auth/enroll"
	"osqueue/internal/web"
)

// Revocation is the answer to a request to revoke the certificates of a node.
type Revocation struct {
	Node    string   `json:"node"`
	Removed []string `json:"removed"` // server ids that were members
	LSN     string   `json:"lsn"`
}

// revokeRequest is the body of the request.
type revokeRequest struct {
	Node string `json:"node"`
}

// Revoke ends the trust in all certificates of a node that were issued until now, and removes
// the node from the cluster. The first is a log entry: each node that has applied it closes the
// connections of the revoked one. Both may be repeated. The leader does not revoke itself. Revoke
// returns ErrNotLeader on every node but the active leader, and an ErrUnknown if the entry may
// be committed.
func (n *Node) Revoke(ctx context.Context, name string) (Revocation, error) {
	if !membership.ValidName(name) {
		return Revocation{}, fmt.Errorf("node name %q: use 1 to 63 letters, digits, '.', '_' or '-'", name)
	}
	if n.active() == nil {
		return Revocation{}, ErrNotLeader
	}
	if name == n.cfg.Name {
		return Revocation{}, fmt.Errorf("node %s leads: stop it, and revoke its certificates when another node leads", name)
	}
	mark := fsm.RevokedMark(name)
	ops := []*fsmpb.Mutation{auth.Mark(mark, "revoke")}
	if n.Token(mark) != nil { // the newest revocation counts
		ops = append([]*fsmpb.Mutation{{Op: &fsmpb.Mutation_RevokeToken{RevokeToken: &fsmpb.RevokeToken{Id: mark}}}}, ops...)
	}
	if _, admitted := n.admitted(name); admitted { // it no longer joins
		ops = append([]*fsmpb.Mutation{enroll.DropPeer(name)}, ops...)
	}
	results, lsn, err := n.ProposeAll(ctx, ops)
	if err != nil {
		return Revocation{}, err
	}
	if err := results[len(results)-1].Code.Err(); err != nil {
		return Revocation{}, fmt.Errorf("record the revocation: %w", err)
	}
	removed, err := n.members.RemoveServers(ctx, name)
	if err != nil {
		return Revocation{}, fmt.Errorf("%w: the certificates of node %s are revoked, but it is still a member: repeat the request: %w", ErrUnknown, name, err)
	}
	n.log.Warn("revoked the certificates of a node", "node", name, "removed", removed)
	return Revocation{Node: name, Removed: removed, LSN: lsn.String()}, nil
}

// serveRevoke serves POST node/revoke, a request of an operator.
func (n *Node) serveRevoke(w http.ResponseWriter, r *http.Request) {
	var req revokeRequest
	if err := json.NewDecoder(io.LimitReader(r.Body, membership.BodyMax)).Decode(&req); err != nil {
		web.WriteJSON(w, http.StatusBadRequest, web.Refusal{Message: err.Error()})
		return
	}
	done, err := n.Revoke(r.Context(), req.Node)
	switch {
	case err == nil:
		web.WriteJSON(w, http.StatusOK, done)
	case errors.Is(err, ErrNotLeader):
		web.WriteJSON(w, http.StatusMisdirectedRequest, web.Refusal{Message: err.Error(), Leader: n.members.LeaderHTTP()})
	case errors.Is(err, ErrUnknown):
		web.WriteJSON(w, http.StatusServiceUnavailable, web.Refusal{Message: err.Error()})
	default:
		web.WriteJSON(w, http.StatusConflict, web.Refusal{Message: err.Error()})
	}
}

// AskToRevoke asks the node with the base URL server, which must be the active leader, to revoke
// the certificates of a node. again reports whether the request may be repeated, at the leader,
// because it was not answered or is not decided.
func AskToRevoke(ctx context.Context, client *http.Client, server, node string) (done Revocation, again bool, err error) {
	body, err := json.Marshal(revokeRequest{Node: node})
	if err != nil {
		return done, false, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, server+RevokePath, bytes.NewReader(body))
	if err != nil {
		return done, false, err
	}
	resp, err := web.Do(client, req)
	if err != nil {
		return done, true, err
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(io.LimitReader(resp.Body, membership.BodyMax))
	switch {
	case err != nil:
		return done, true, err
	case resp.StatusCode != http.StatusOK:
		again = resp.StatusCode == http.StatusMisdirectedRequest || resp.StatusCode == http.StatusServiceUnavailable
		return done, again, membership.Refused(server+RevokePath, resp.Status, body)
	}
	err = json.Unmarshal(body, &done)
	return done, false, err
}
