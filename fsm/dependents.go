package fsm

// This file has the index of jobs by the jobs that they were enqueued to run after. In
// contrast to the waiters it also has those that do not wait any more, for the graph of a
// job. Nothing decides by it.

// dependent is the place of a job under one of the jobs in its After.
type dependent struct {
	on  string // id of the earlier job, which may be removed
	seq uint64
	id  string
}

func byEarlier(a, b dependent) bool {
	if a.on != b.on {
		return a.on < b.on
	}
	return a.seq < b.seq
}

func (m *Machine) addDependents(j *Job) {
	for _, on := range j.Options().After {
		m.dependents.Set(dependent{on: on, seq: j.Seq, id: j.ID})
	}
}

func (m *Machine) removeDependents(j *Job) {
	for _, on := range j.Options().After {
		m.dependents.Delete(dependent{on: on, seq: j.Seq})
	}
}

// Dependents calls fn with the ids of the jobs that were enqueued to run after the job with
// that id, oldest first, until fn returns false.
func (v *View) Dependents(id string, fn func(id string) bool) {
	v.dependents.Ascend(dependent{on: id}, func(d dependent) bool { return d.on == id && fn(d.id) })
}
