package core

import (
	"time"

	v1 "osqueue/client/api/v1"
)

// passOnWait lets the leader answer a request about its memory, which may wait.
func (s *Core) passOnWait(c *Call) (done bool, err error) {
	if c.Route.Waits {
		return s.PassOn(c, 0) // the body says for how long
	}
	values, err := c.Query()
	if err != nil {
		return false, err
	}
	wait := time.Duration(0)
	if text := values.Get(v1.ParamWaitMs); text != "" {
		if wait, err = s.WaitParam(v1.ParamWaitMs, text); err != nil {
			return false, err
		}
	}
	return s.PassOn(c, wait)
}
