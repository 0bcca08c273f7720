package nemesis

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"osqueue/tests/cluster"
	"osqueue/tests/history"
)

// rootFaults put another directory in the place of the bucket, as a mount does that goes away.
var rootFaults = []Fault{
	{Name: "bucket-root", NoBucket: true, Needs: NeedFile, Hold: 4 * time.Second, Begin: otherRoot},
}

// otherRoot moves the bucket away and puts an empty directory there. The sign is that the leader
// says so, and that nothing was written to the empty directory.
func otherRoot(w *World, s *history.FaultSpan) func() {
	dir := strings.TrimPrefix(w.Cluster.Bucket(), "file://")
	away := dir + ".away"
	if err := errors.Join(os.Rename(dir, away), os.Mkdir(dir, 0o700)); err != nil {
		w.T.Fatal(err)
	}
	said := ""
	w.Cluster.Eventually(cluster.LeaderTimeout, "the leader to see the other directory", func() error {
		for _, n := range w.Cluster.Nodes {
			if st, err := n.Status(); err == nil && strings.Contains(st.FlushError+st.Fence.Reason, "is it mounted?") {
				said = n.Name
				return nil
			}
		}
		return errors.New("no node reports it")
	})
	return func() {
		err := os.Remove(dir) // fails if it is not empty
		if err = errors.Join(err, os.Rename(away, dir)); err != nil {
			w.T.Errorf("the other directory: %v", err)
			return
		}
		s.Hit(fmt.Sprintf("%s refused the other directory, and left it empty", said))
	}
}
