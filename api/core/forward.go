package core

import (
	"errors"
	"net/http"
	"time"

	"github.com/go-json-experiment/json"

	v1 "osqueue/client/api/v1"
)

// PassOn forwards the request to the active leader, unless this node is the leader. If done is
// true the request has been answered. The leader may take wait longer than usual.
func (s *Core) PassOn(c *Call, wait time.Duration) (done bool, err error) {
	leader, self := s.Node.Leader()
	switch {
	case self:
		return false, nil
	case leader == "":
		return true, NoLeaderKnown(c)
	case c.ForwardedBy != nil:
		f := Fail(NotLeader, "this node is no longer the leader; %s forwarded the request",
			Shown(First(c.ForwardedBy)))
		f.Leader = leader
		return true, f
	}
	err = s.Forward.Send(c, leader, wait)
	if c.Route.Method != http.MethodGet || !errors.Is(err, ErrDeposed) {
		return true, err
	}
	switch leader, self = s.Node.Leader(); { // a read can be sent again
	case self:
		return false, nil
	case leader == "":
		return true, NoLeaderKnown(c)
	}
	return true, s.Forward.Send(c, leader, wait)
}

// ErrDeposed means that the node to which a request was forwarded no longer leads.
var ErrDeposed = errors.New("another node is the leader now")

func NoLeaderKnown(c *Call) error {
	const text = "no active leader is known: the cluster is electing one, has no majority, or does not own the bucket"
	if c.Route.At == LeaderOnly || c.Route.Path == PathLSNWait {
		return Fail(NoLeader, text)
	}
	return Fail(NoLeader, text+"; %s=%s shows what this node has", v1.ParamConsistency, v1.ConsistencyLocal)
}

// WaitOf returns how long a call whose body is read asks the leader to wait.
func (s *Core) WaitOf(c *Call) time.Duration {
	var in struct {
		WaitMs int64 `json:"waitMs"`
	}
	var err error
	if c.inProto() { // a claim is the only one
		claim := new(v1.Claim)
		err = claim.ParseProto(c.In, c.Core.Config.Limits.Depth)
		in.WaitMs = claim.WaitMs
	} else {
		err = json.Unmarshal(c.In, &in, Lenient)
	}
	if err != nil {
		return 0 // the leader refuses the body
	}
	return s.BoundedWait(max(in.WaitMs, 0))
}

// passOnWait lets the leader answer a request about its memory, which may wait.
func (s *Core) passOnWait(c *Call) (done bool, err error) {
	if c.Route.Waits {
		return s.PassOn(c, 0) // the body says for how long
	}
	wait := time.Duration(0)
	if text := c.Params.Get(v1.ParamWaitMs); text != "" {
		if wait, err = s.WaitParam(v1.ParamWaitMs, text); err != nil {
			return false, err
		}
	}
	return s.PassOn(c, wait)
}
