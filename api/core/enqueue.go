package core

import (
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

// EnqueuedID returns the id of item i: that of the job, or of the holder of its unique key, or
// the id in the first answer to the same request.
func EnqueuedID(res fsm.Result, i int, job *fsmpb.NewJob) string {
	if i < len(res.Jobs) && res.Jobs[i] != nil {
		return res.Jobs[i].ID
	}
	return job.Id
}

func EnqueueOf(jobs []*fsmpb.NewJob) *fsmpb.Mutation {
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_Enqueue{Enqueue: &fsmpb.Enqueue{Jobs: jobs}}}
}
