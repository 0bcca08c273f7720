package document

import "osqueue/fsm"

// NewJobs returns the available and running jobs of the document that no machine has had: a
// person has added them. A job that a machine had has a position (seq) that is not after
// the youngest job that its writer knew, nor after lastSeq, the youngest that the caller
// knows. If the caller does not know such a job any more, the job has ended: it comes from
// an old copy.
func (d *File) NewJobs(lastSeq uint64) []*fsm.Job {
	known := min(d.OurSeq, lastSeq)
	var jobs []*fsm.Job
	for i, j := range d.Jobs {
		waits := j.Status == fsm.Unclaimed || j.Status == fsm.Scheduled || j.Status == fsm.Blocked
		old := i < len(d.given) && d.given[i] > 0 && d.given[i] <= known
		if waits && !old {
			jobs = append(jobs, j)
		}
	}
	return jobs
}

// givenPlaces returns the positions of jobs as they are in the document.
func (d *decoder) givenPlaces() map[*fsm.Job]uint64 {
	places := make(map[*fsm.Job]uint64)
	for _, list := range [][]*fsm.Job{d.waiting, d.others} {
		for _, j := range list {
			if j.Seq > 0 {
				places[j] = j.Seq
			}
		}
	}
	return places
}

func placesOf(jobs []*fsm.Job, given map[*fsm.Job]uint64) []uint64 {
	if len(given) == 0 {
		return nil
	}
	places := make([]uint64, len(jobs))
	for i, j := range jobs {
		places[i] = given[j]
	}
	return places
}
