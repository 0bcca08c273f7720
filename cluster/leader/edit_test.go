package leader

import (
	"fmt"
	"testing"

	"osqueue/fsm/fsmpb"
)

// An edit of many large jobs is split into entries that raft accepts.
func TestLargeEditIsCutByBytes(t *testing.T) {
	var jobs []*fsmpb.NewJob
	for i := range 250 {
		jobs = append(jobs, &fsmpb.NewJob{Id: fmt.Sprintf("j%d", i), Payload: make([]byte, 200<<10*(i%2))})
	}
	jobs[7].Payload = make([]byte, 2*editBytes)
	taken := 0
	for rest := jobs; len(rest) > 0; {
		batch := editBatch(rest)
		rest = rest[len(batch):]
		taken += len(batch)
		if size := oneByOne(batch).size(); len(batch) > editJobs || len(batch) > 1 && size > editBytes+len(batch)*16 {
			t.Fatalf("%d jobs of %d bytes in one entry", len(batch), size)
		}
	}
	if taken != len(jobs) {
		t.Errorf("%d of %d jobs were taken", taken, len(jobs))
	}
}
