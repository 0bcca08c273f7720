package membership

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"

	"github.com/hashicorp/raft"
)

// Path is the path of the requests between nodes.
const Path = "/cluster/v1/"

// BodyMax bounds the body of a message between nodes, in bytes.
const BodyMax = 64 << 10

// Serve adds the handlers of the requests of other nodes to mux, under Path.
func (n *Members) Serve(mux *http.ServeMux) {
	mux.HandleFunc("GET "+Path+"identity", func(w http.ResponseWriter, _ *http.Request) {
		WriteJSON(w, http.StatusOK, n.Identity())
	})
	mux.HandleFunc("POST "+Path+"join", n.serveJoin)
	mux.HandleFunc("GET "+Path+"history/{term}/{index}", n.serveHistory)
}

func (n *Members) serveJoin(w http.ResponseWriter, r *http.Request) {
	var who Identity
	if err := json.NewDecoder(io.LimitReader(r.Body, BodyMax)).Decode(&who); err != nil {
		WriteJSON(w, http.StatusBadRequest, Refusal{Message: "not an identity: " + err.Error()})
		return
	}
	switch err := n.admit(r.Context(), who); {
	case err == nil:
		w.WriteHeader(http.StatusNoContent)
	case errors.Is(err, errNotLeader):
		WriteJSON(w, http.StatusMisdirectedRequest, Refusal{Message: err.Error(), Leader: n.LeaderHTTP()})
	default:
		WriteJSON(w, http.StatusConflict, Refusal{Message: err.Error()})
	}
}

// Refusal is the body of an answer that refuses a request.
type Refusal struct {
	Message string `json:"message"`
	Leader  string `json:"leader,omitempty"`
}

// WriteJSON answers a request of another node.
func WriteJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // if the answer does not arrive, the peer asks again
}

// serveHistory answers whether this node's log continues after an entry. Only the leader
// may answer: another node may have been left behind when the cluster was recovered from
// a minority, and its log may contain a lost history.
func (n *Members) serveHistory(w http.ResponseWriter, r *http.Request) {
	term, badTerm := strconv.ParseUint(r.PathValue("term"), 10, 64)
	index, badIndex := strconv.ParseUint(r.PathValue("index"), 10, 64)
	switch {
	case badTerm != nil || badIndex != nil:
		WriteJSON(w, http.StatusBadRequest, Refusal{Message: errors.Join(badTerm, badIndex).Error()})
	case n.raft.State() != raft.Leader:
		WriteJSON(w, http.StatusMisdirectedRequest, Refusal{Message: errNotLeader.Error(), Leader: n.LeaderHTTP()})
	case !n.do.Agrees(n.raft.CommitIndex(), term, index):
		WriteJSON(w, http.StatusConflict, Refusal{Message: "the log of this node does not go on from there"})
	default:
		w.WriteHeader(http.StatusNoContent)
	}
}
