package membership

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/hashicorp/raft"

	"osqueue/cluster/snapshot"
	"osqueue/fsm"
	"osqueue/internal/web"
)

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
