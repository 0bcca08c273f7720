package dtq

import (
	"net/http"

	"osqueue/internal/text"
)

// clipMax is the largest number of bytes of a name in the log.
const clipMax = 64

// raftMessage serves POST /raft_message, which dtq's brokers send to each other. The
// message has no effect. The answer carries no information in dtq either: a broker
// sends its votes and confirmations as messages of their own, and this node sends none.
// To such a broker this node is unreachable, and counts for no majority.
func (h *Handler) raftMessage(c *call) *reply {
	in, refused := c.read()
	if refused != nil {
		return refused
	}
	if _, ok := textOf(in.Type); !ok {
		return refusal(http.StatusBadRequest, "the message has no type")
	}
	h.deaf.Do(func() {
		h.cfg.Logger.Warn("a broker of dtq takes this node for one of its peers; its messages have no effect: remove this node from its list of peers",
			"from", c.r.RemoteAddr, "candidate", text.Clip(string(in.Candidate), clipMax), "leader", text.Clip(string(in.Leader), clipMax))
	})
	return &reply{status: http.StatusNoContent}
}
