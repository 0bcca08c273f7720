package cluster

import (
	"slices"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/storage/queuefile"
)

// unflushed are the jobs that this cluster has acknowledged, that have not ended, and
// that the bucket never got: all its nodes died before, and an original broker, which
// knows of no log, went on from the document.
func (n *Node) unflushed(doc *queuefile.Document) []*fsmpb.NewJob {
	v := n.replica.freeze()
	m := v.Meta()
	if !doc.Overtaken || doc.Header.Cluster != n.clusterID() || doc.Header.Lineage != m.Lineage ||
		doc.Header.LSN().Compare(m.LSN) >= 0 {
		return nil
	}
	var jobs []*fsmpb.NewJob
	v.Merged([]fsm.Status{fsm.Unclaimed, fsm.Scheduled, fsm.Blocked, fsm.InProgress}, doc.OurSeq, func(j *fsm.Job) bool {
		jobs = append(jobs, newJobOf(j))
		return true
	})
	return jobs
}

// carryBatch is how many jobs are carried over by one step of the machine.
const carryBatch = 1000

// carryOver enqueues jobs in a state that is to be adopted, behind those that it has.
// A job whose batch, or whose predecessor, is gone comes in without. It returns how
// many are refused all the same.
func carryOver(m *fsm.Machine, jobs []*fsmpb.NewJob) (refused int) {
	for batch := range slices.Chunk(jobs, carryBatch) {
		again := refusedOf(m, batch)
		for _, j := range again {
			j.After, j.Batch, j.Unique = nil, "", nil
		}
		refused += len(refusedOf(m, again))
	}
	return refused
}

// refusedOf enqueues jobs at the machine's own time, each for itself.
func refusedOf(m *fsm.Machine, jobs []*fsmpb.NewJob) (refused []*fsmpb.NewJob) {
	if len(jobs) == 0 {
		return nil
	}
	at := m.Meta()
	results := m.Apply(at.LSN.Index+1, at.LSN.Term-at.TermBase, &fsmpb.Batch{NowMs: at.Now, Mutations: oneByOne(jobs)})
	for i, res := range results {
		if res.Code.Err() != nil {
			refused = append(refused, jobs[i])
		}
	}
	return refused
}
