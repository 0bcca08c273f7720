package bucket

import (
	"hash/maphash"

	"osqueue/fsm"
)

// digest is a summary of a state. Two digests can be compared without both states in
// memory.
type digest struct {
	lsn      fsm.LSN
	clock    int64
	types    map[string]fsm.Counts
	beside   [numBesides]int
	statuses map[uint64]fsm.Status // by a hash of the job id
}

// Rows for the parts of a state other than jobs.
const (
	besideQueues = iota
	besideCrons
	besideBatches
	besideWorkers

	numBesides
)

var besideNames = [numBesides]string{"(types with settings)", "(schedules)", "(batches)", "(workers)"}

// idSeed seeds the hashes of job ids. It is random, because hashes are compared only
// within this process. With 64 bits, two of a million ids collide once in 10^7 runs, and
// then a figure is wrong by one.
var idSeed = maphash.MakeSeed()

var everyStatus = []fsm.Status{fsm.Completed, fsm.Dead, fsm.Cancelled, fsm.Blocked, fsm.Scheduled, fsm.Unclaimed, fsm.InProgress}

func digestOf(m *fsm.Machine) *digest {
	v := m.View()
	meta := v.Meta()
	d := &digest{lsn: meta.LSN, clock: meta.Now, types: make(map[string]fsm.Counts), statuses: make(map[uint64]fsm.Status)}
	m.Types(func(name string, t fsm.TypeStats) bool {
		d.types[name] = t.Counts
		return true
	})
	v.Merged(everyStatus, 0, func(j *fsm.Job) bool {
		d.statuses[maphash.String(idSeed, j.ID)] = j.Status
		return true
	})
	d.beside[besideCrons], d.beside[besideWorkers] = v.CronCount(), v.WorkerCount()
	v.Queues(func(*fsm.QueueSettings) bool {
		d.beside[besideQueues]++
		return true
	})
	v.Batches("", func(*fsm.JobBatch) bool {
		d.beside[besideBatches]++
		return true
	})
	return d
}

func hasEnded(s fsm.Status) bool { return s == fsm.Completed || s == fsm.Dead || s == fsm.Cancelled }

// restoreEffects counts the jobs that a restore changes.
type restoreEffects struct {
	// Again counts the jobs that run again: they have not ended in the restored state,
	// but have ended since. The key is their present status, or "removed" if they no
	// longer exist.
	Again map[string]int `json:"again,omitempty"`
	// Missing counts the jobs that were added since, by whether they have ended.
	MissingWaiting int `json:"missingNotEnded,omitzero"`
	MissingEnded   int `json:"missingEnded,omitzero"`
}

// removed stands for the status of a job that no longer exists.
const removed = "removed"

// effects compares two states of one queue.
func effects(restored, newest *digest) restoreEffects {
	e := restoreEffects{Again: make(map[string]int)}
	for id, was := range restored.statuses {
		is, there := newest.statuses[id]
		switch {
		case hasEnded(was):
		case !there:
			e.Again[removed]++
		case hasEnded(is):
			e.Again[is.String()]++
		}
	}
	for id, is := range newest.statuses {
		if _, there := restored.statuses[id]; there {
			continue
		}
		if hasEnded(is) {
			e.MissingEnded++
		} else {
			e.MissingWaiting++
		}
	}
	return e
}
