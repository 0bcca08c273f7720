package dtq

import "net/http"

// clipMax bounds what the log shows of a name.
const clipMax = 64

func clip(v []byte) string { return string(v[:min(len(v), clipMax)]) }

// raftMessage is POST /raft_message, by which the original's brokers speak to each
// other. Nothing comes of it here. It is answered as it is there, which says
// nothing: votes and confirmations are messages of their own, and none is sent. So
// to such a broker this node is one that cannot be heard, and nothing is won or
// committed by it.
func (h *Handler) raftMessage(c *call) *reply {
	in, refused := c.read()
	if refused != nil {
		return refused
	}
	if _, ok := textOf(in.Type); !ok {
		return refusal(http.StatusBadRequest, "the message has no type")
	}
	h.deaf.Do(func() {
		h.cfg.Logger.Warn("a broker of dtq takes this node for one of its peers; its messages have no effect here, take this node off its list",
			"from", c.r.RemoteAddr, "candidate", clip(in.Candidate), "leader", clip(in.Leader))
	})
	return &reply{status: http.StatusNoContent}
}
