package cluster

import (
	"context"
	"errors"
	"testing"

	"github.com/hashicorp/raft"
)

// A write that may have been committed must not be reported as not committed: the client
// would send it again as a new one.
func TestWhatMayHaveHappenedIsUnknown(t *testing.T) {
	for _, c := range []struct{ raft, want error }{
		{raft.ErrNotLeader, ErrNotLeader},
		{raft.ErrLeadershipTransferInProgress, ErrNotLeader},
		{raft.ErrLeadershipLost, ErrUnknown},
		{raft.ErrAbortedByRestore, ErrUnknown},
		{raft.ErrRaftShutdown, ErrUnknown},
		{context.DeadlineExceeded, ErrUnknown},
		{errors.New("something new"), ErrUnknown},
	} {
		got := raftError(c.raft)
		if !errors.Is(got, c.want) || errors.Is(got, ErrNotLeader) != errors.Is(c.want, ErrNotLeader) {
			t.Errorf("%v: got %v, want %v", c.raft, got, c.want)
		}
	}
}
