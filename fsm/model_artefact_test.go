package fsm_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

// naiveArtefact is an artefact as a list has it, without indexes.
type naiveArtefact struct {
	size, until, released int64
	job, name             string
}

// naiveArtefacts follows section 26 of DESIGN.md. It knows of the jobs only which are there, and the tokens of those that run.
type naiveArtefacts struct {
	now     int64
	files   map[string]naiveArtefact // by id
	waiting map[string]bool
	running map[string]uint64
}

func (n *naiveArtefacts) reserved(id string) bool {
	f, ok := n.files[id]
	return ok && f.job == "" && f.released == 0
}

// of returns the id of the artefact of a job with a name; "" is none.
func (n *naiveArtefacts) of(job, name string) string {
	for id, f := range n.files {
		if f.job == job && f.name == name && f.released == 0 {
			return id
		}
	}
	return ""
}

func (n *naiveArtefacts) count(job string) (all int) {
	for _, f := range n.files {
		if f.job == job && f.released == 0 {
			all++
		}
	}
	return all
}

func (n *naiveArtefacts) release(id string) {
	f := n.files[id]
	f.released = n.now
	n.files[id] = f
}

// advance ends reservations.
func (n *naiveArtefacts) advance(now int64) {
	n.now = max(n.now, now)
	for id, f := range n.files {
		if n.reserved(id) && f.until <= n.now {
			n.release(id)
		}
	}
}

func (n *naiveArtefacts) attach(id, job, name string) {
	f := n.files[id]
	f.job, f.name = job, name
	n.files[id] = f
}

func (n *naiveArtefacts) enqueue(job string, list []*fsmpb.NamedArtefact) fsm.Code {
	if n.waiting[job] || n.running[job] != 0 {
		return fsm.OK // a duplicate
	}
	seen := map[string]bool{}
	for _, a := range list {
		if !n.reserved(a.Id) || seen[a.Id] {
			return fsm.NoSuchArtefact
		}
		seen[a.Id] = true
	}
	for _, a := range list {
		n.attach(a.Id, job, a.Name)
	}
	n.waiting[job] = true
	return fsm.OK
}

func (n *naiveArtefacts) attachRunning(job string, token uint64, name, id string) fsm.Code {
	held := n.of(job, name)
	switch {
	case n.running[job] == 0 && !n.waiting[job]:
		return fsm.NotFound
	case n.running[job] == 0:
		return fsm.StaleToken // of a claim that there was not
	case n.running[job] != token:
		return fsm.StaleToken
	case held == id:
		return fsm.Duplicate
	case !n.reserved(id):
		return fsm.NoSuchArtefact
	case held == "" && n.count(job) >= 16:
		return fsm.TooManySteps
	case held != "":
		n.release(held)
	}
	n.attach(id, job, name)
	return fsm.OK
}

func (n *naiveArtefacts) remove(job string) {
	for id, f := range n.files {
		if f.job == job && f.released == 0 {
			n.release(id)
		}
	}
	delete(n.waiting, job)
	delete(n.running, job)
}

func (n *naiveArtefacts) drop(ids []string) (dropped uint64) {
	for _, id := range ids {
		if f, ok := n.files[id]; ok && f.released != 0 {
			delete(n.files, id)
			dropped++
		}
	}
	return dropped
}

// compare compares all artefacts of the machine with those of the model.
func (n *naiveArtefacts) compare(t *rapid.T, m *fsm.Machine) {
	v, got := m.View(), map[string]naiveArtefact{}
	var bytes int64
	v.AllArtefacts(func(a *fsm.Artefact) bool {
		got[a.Id] = naiveArtefact{size: a.Size, until: a.UntilMs, released: a.ReleasedMs, job: a.JobId, name: a.Name}
		if a.ReleasedMs == 0 {
			bytes += 256 + int64(len(a.Id)+len(a.Sum)+len(a.JobId)+len(a.Name)) + a.Size
		}
		return true
	})
	if !maps.Equal(got, n.files) {
		t.Fatalf("the machine has %v, the model %v", got, n.files)
	}
	if _, used := m.AccountUsage("acc"); used != bytes {
		t.Fatalf("the account uses %d bytes, want %d", used, bytes)
	}
	for id, f := range n.files {
		if f.released == 0 && f.job != "" && v.ArtefactOf(f.job, f.name) != v.Artefact(id) {
			t.Fatalf("%s is not found under its job", id)
		}
	}
	if err := m.CheckIndexes(); err != nil {
		t.Fatal(err)
	}
}

// TestArtefactsAgreeWithModel applies random mutations about artefacts and their jobs to the machine and to the model.
func TestArtefactsAgreeWithModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m, n := fsm.New(), &naiveArtefacts{now: 1000, files: map[string]naiveArtefact{}, waiting: map[string]bool{}, running: map[string]uint64{}}
		made := 0
		id := func(t *rapid.T) string { return fmt.Sprint("f", rapid.IntRange(0, made).Draw(t, "file")) }
		job := func(t *rapid.T) string { return fmt.Sprint("j", rapid.IntRange(0, 4).Draw(t, "job")) }
		name := rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "k", "l", "m", "n", "o", "p", "q", "r", "s"})
		one := func(t *rapid.T, mut *fsmpb.Mutation, want fsm.Code) fsm.Result {
			r := apply(t, m, n.now, mut)[0]
			if r.Code != want {
				t.Fatalf("%v: %v, want %v", mut, r.Code, want)
			}
			return r
		}
		t.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) { n.compare(t, m) },
			"reserve": func(t *rapid.T) {
				made++
				f := naiveArtefact{size: int64(made % 7), until: n.now + rapid.Int64Range(1, 300).Draw(t, "valid")}
				n.files[fmt.Sprint("f", made)] = f
				one(t, reserveArtefact(fmt.Sprint("f", made), f.size, f.until, &fsmpb.Quota{Account: "acc"}), fsm.OK)
			},
			"reserve again": func(t *rapid.T) {
				if again := id(t); n.files[again] != (naiveArtefact{}) {
					one(t, reserveArtefact(again, 1, n.now+1000, nil), fsm.IDTaken)
				}
			},
			"enqueue": func(t *rapid.T) {
				var pairs []string
				names := rapid.SliceOfNDistinct(name, 0, 3, rapid.ID).Draw(t, "names")
				slices.Sort(names)
				for _, name := range names {
					pairs = append(pairs, name, id(t))
				}
				mut := enqueueWith(job(t), pairs...)
				j := mut.GetEnqueue().Jobs[0]
				one(t, mut, n.enqueue(j.Id, j.Artefacts))
			},
			"claim": func(t *rapid.T) {
				for _, j := range one(t, claim("w", 1), fsm.OK).Jobs {
					delete(n.waiting, j.ID)
					n.running[j.ID] = j.Execution().Token
				}
			},
			"attach": func(t *rapid.T) {
				j := job(t)
				token := max(n.running[j], 1) + uint64(rapid.SampledFrom([]int{0, 0, 0, 0, 1}).Draw(t, "wrong token"))
				name, id := name.Draw(t, "name"), id(t)
				one(t, attachArtefact("w", j, token, name, id), n.attachRunning(j, token, name, id))
			},
			"remove": func(t *rapid.T) {
				j := job(t)
				if n.waiting[j] {
					one(t, changeOf(fsm.DeleteJobs, j), fsm.OK)
					n.remove(j)
				}
			},
			"complete": func(t *rapid.T) {
				j := job(t)
				if token := n.running[j]; token != 0 { // and remove it
					one(t, complete("w", j, token), fsm.OK)
					one(t, changeOf(fsm.DeleteJobs, j), fsm.OK)
					n.remove(j)
				}
			},
			"time": func(t *rapid.T) {
				n.advance(n.now + rapid.Int64Range(1, 100).Draw(t, "ms"))
				apply(t, m, n.now)
			},
			"drop": func(t *rapid.T) {
				ids := []string{id(t), id(t)}
				if ids[0] == ids[1] {
					ids = ids[:1]
				}
				r := one(t, &fsmpb.Mutation{Op: &fsmpb.Mutation_DropArtefacts{DropArtefacts: &fsmpb.DropArtefacts{Ids: ids}}}, fsm.OK)
				if want := n.drop(ids); r.Count != want {
					t.Fatalf("dropped %d, want %d", r.Count, want)
				}
			},
		})
	})
}
