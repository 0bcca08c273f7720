package main

import (
	"hash/maphash"

	"osqueue/fsm"
)

// digest is what is remembered of a state, to be held against another one without
// both of them in memory.
type digest struct {
	lsn    fsm.LSN
	clock  int64
	types  map[string]fsm.Counts
	beside [numBesides]int
	fates  map[uint64]fsm.Status // of jobs, by a hash of their ids
}

// What stands beside the jobs, as far as it is counted.
const (
	besideQueues = iota
	besideCrons
	besideBatches
	besideWorkers

	numBesides
)

var besideNames = [numBesides]string{"(types with settings)", "(schedules)", "(batches)", "(workers)"}

// idSeed is the process's own: hashes of ids are compared within it only. With
// 64 bits two of a million ids share one once in 10^7 times, and then a figure
// is wrong by one.
var idSeed = maphash.MakeSeed()

func digestOf(m *fsm.Machine) *digest {
	v := m.View()
	meta := v.Meta()
	d := &digest{lsn: meta.LSN, clock: meta.Now, types: make(map[string]fsm.Counts), fates: make(map[uint64]fsm.Status)}
	m.Types(func(name string, t fsm.TypeStats) bool {
		d.types[name] = t.Counts
		return true
	})
	v.Merged(everyStatus, 0, func(j *fsm.Job) bool {
		d.fates[maphash.String(idSeed, j.ID)] = j.Status
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

// restoreEffects is what a restore does to jobs, beside figures.
type restoreEffects struct {
	// Again are the jobs that have not ended in what is restored, but have since:
	// by how they ended, or "removed" if they are not even there.
	Again map[string]int `json:"again,omitempty"`
	// Missing are the jobs that were added since, by whether they have ended.
	MissingWaiting int `json:"missingNotEnded,omitzero"`
	MissingEnded   int `json:"missingEnded,omitzero"`
}

// removed stands for the status of a job that is not there.
const removed = "removed"

// effects compares two states of one queue.
func effects(restored, newest *digest) restoreEffects {
	e := restoreEffects{Again: make(map[string]int)}
	for id, was := range restored.fates {
		is, there := newest.fates[id]
		switch {
		case hasEnded(was):
		case !there:
			e.Again[removed]++
		case hasEnded(is):
			e.Again[is.String()]++
		}
	}
	for id, is := range newest.fates {
		if _, there := restored.fates[id]; there {
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
