package cluster

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"osqueue/internal/storagetest"
)

// The simulation runs whole nodes in simulated time.
//
// Each run is a cluster of three to five nodes as Open makes them, with raft, the
// machine, group commit, the flusher and the fence. It runs under testing/synctest: time
// advances only when every goroutine waits. Only the environment of a node is simulated
// (type testEnv): its disk, its network, its clock, and the bucket. A seed determines the
// deck of faults, which are applied while producers and workers use the queue.
//
//	sim_net_test.go     links that can be cut, in one or both directions; raft's transport
//	sim_late_test.go    messages that arrive late or twice
//	sim_disk_test.go    the data that survives a crash; disks that are full, or lost
//	sim_bucket_test.go  a node's connection to the bucket
//	sim_node_test.go    processes that crash, stop and start, and the entries they apply
//	sim_faults_test.go  faults, each with the evidence that it had an effect
//	sim_hung_test.go    disks and buckets that hang; standbys, removed objects, upgrades
//	sim_ahead_test.go   leaders whose disk is behind the followers' disks
//	sim_flush_test.go   the flusher: mishaps at each operation, outages, and the past that is kept
//	sim_copies_test.go  lost logs, copied disks, and edits of the document
//	sim_load_test.go    users, and the answers that they received
//	sim_keys_test.go    limits by key, sequences, edits, releases with a delay
//	sim_memory_test.go  steps, signals, suspensions and artefacts
//	sim_ledger_test.go  the history of every job, by the log
//	sim_world_test.go   states and documents: they must be equal, and must not go back
//	sim_run_test.go     one run
//	sim_links_test.go   cuts with a known outcome
//	sim_checks_test.go  tests that the checks find violations
//
// The counts count each check under a name ("check: …").
//
// A seed determines the faults, their times and their targets. It determines neither the
// order of goroutines that are ready at the same time, nor raft's own random numbers: two
// runs of a seed are similar, but not equal. It may take several runs of a seed until a
// violation appears again.
//
// Not simulated are processes that are stopped (a node that is cut off from everything
// takes their place), writes that a disk loses after it has confirmed them, and the store
// of snapshots in the bucket, which works on files.
//
//	OSQUEUE_SIM=10h   simulates that duration, from a random seed
//	OSQUEUE_SEED=17   begins with that seed; without OSQUEUE_SIM runs only that seed

// simShort is the default length of the simulation: about four runs, which have all sizes of
// clusters, and one upgrade. Under the race detector it is a quarter of that.
const simShort = 20 * time.Minute

// simMore is for how much longer at most runs continue while a wanted event has not
// happened yet: an event that occurs in every second run is sometimes missing in four
// runs.
const simMore = 6 * simShort

func TestSimulation(t *testing.T) {
	want, seed, err := simLength(os.Getenv("OSQUEUE_SIM"), os.Getenv("OSQUEUE_SEED"))
	if err != nil {
		t.Fatal(err)
	}
	counts := storagetest.NewCounts()
	begun := time.Now()
	var mu sync.Mutex
	lasted, runs, hits := time.Duration(0), 0, 0
	next := func() (of uint64, goOn bool) { // the seed of the next run
		mu.Lock()
		defer mu.Unlock()
		seed++
		return seed - 1, !t.Failed() && (lasted < want || want >= simShort && lasted < want+simMore && len(simMissing(counts)) > 0)
	}
	var workers sync.WaitGroup
	for range simAtOnce(want) {
		workers.Go(func() {
			for of, goOn := next(); goOn; of, goOn = next() {
				t.Run(fmt.Sprint(of), func(t *testing.T) {
					s := simulate(t, of, counts)
					mu.Lock()
					defer mu.Unlock()
					lasted, hits, runs = lasted+s.lasted, hits+s.hits, runs+1
				})
			}
		})
	}
	workers.Wait()
	if t.Failed() {
		return
	}
	t.Logf("%d runs, %v of simulated time in %v; %d faults have hit", runs, lasted.Round(time.Second), time.Since(begun).Round(time.Second), hits)
	all := counts.ByName()
	for _, what := range slices.Sorted(maps.Keys(all)) {
		t.Logf("%8d %s", all[what], what)
	}
	if want >= simShort {
		for _, what := range simMissing(counts) {
			t.Errorf("%s: not once", what)
		}
	}
}

// simAtOnce returns how many runs are made at the same time: one if a single seed is wanted.
func simAtOnce(want time.Duration) int {
	if want < time.Minute {
		return 1
	}
	return runtime.GOMAXPROCS(0)
}

// simLength returns how long to simulate, and the first seed.
func simLength(long, first string) (want time.Duration, seed uint64, err error) {
	want, seed = simShort, 1
	if simRace {
		want /= 4
	}
	if long != "" {
		seed = rand.Uint64N(1 << 32)
		if want, err = time.ParseDuration(long); err != nil {
			return 0, 0, fmt.Errorf("OSQUEUE_SIM: %w", err)
		}
	}
	if first != "" {
		if seed, err = strconv.ParseUint(first, 10, 64); err != nil {
			return 0, 0, fmt.Errorf("OSQUEUE_SEED: %w", err)
		}
		if long == "" {
			want = 1
		}
	}
	return want, seed, nil
}

// simSizes are the sizes of clusters, by seed.
var simSizes = []int{5, 3, 4, 3}

// simulate makes one run of a seed.
func simulate(t *testing.T, seed uint64, counts *storagetest.Counts) (s *simRun) {
	t.Helper()
	begun := time.Now()
	synctest.Test(t, func(*testing.T) {
		s = newSimRun(seed, simSizes[seed%uint64(len(simSizes))], counts)
		s.play(deal(s.r))
	})
	t.Logf("seed %d: %v of simulated time in %v, %d faults have hit", seed, s.lasted.Round(time.Second), time.Since(begun).Round(time.Millisecond), s.hits)
	if f := s.failed(); len(f) > 0 {
		s.report(t, seed, f)
	} else if s.hits == 0 {
		t.Errorf("seed %d: void: no fault has hit", seed)
	}
	return s
}

// simShown is the number of lines of a trace in the output of the test.
const simShown = 80

// report stores the trace of a failed run.
func (s *simRun) report(t *testing.T, seed uint64, failures []string) {
	t.Helper()
	file := filepath.Join(t.ArtifactDir(), fmt.Sprintf("simulation-%d.txt", seed))
	trace := s.trace.last(simTraceLines)
	if err := os.WriteFile(file, []byte(strings.Join(trace, "\n")+"\n"), 0o600); err != nil {
		t.Error(err)
	}
	t.Logf("the end of the trace, which is in %s:\n%s", file, strings.Join(trace[max(0, len(trace)-simShown):], "\n"))
	t.Errorf("seed %d (OSQUEUE_SEED=%d repeats it):\n%s", seed, seed, strings.Join(failures, "\n"))
}

// simMissing returns the faults that never had an effect, and the checks that had nothing
// to check.
func simMissing(counts *storagetest.Counts) (missing []string) {
	wanted := []string{
		"adoption", "job lost with the disks", "snapshot restored", "document without jobs", "jobs leave the document", "jobs return",
		"young document", "segment", "segment index", "checkpoint", "checkpoint over a gap", "check: removed object is not needed",
		"check: what the document names is there", "check: what counts as flushed is in the document", "check: state of the past", "lease expired", "heartbeat answered",
		"job completed", "job cancelled", "job dead", "acknowledged as in the bucket", "cancel answered",
		"answer: unknown", "answer: not the leader", "completion refused: stale_token",
		"check: applied entry is on the disk", "check: confirmed entry is on the disk", "check: equal states", "check: document in order", "check: document is a state", "check: job not invented",
		"check: completed once", "check: token", "check: lease in full", "check: standby", "check: fresh read", "check: schedule fires once",
		"check: acknowledged job is in the log", "check: acknowledged completion", "check: acknowledged job is there",
		"check: limit of running jobs", "check: rate of starts", "check: start under a key that was held", "check: sequence",
		"check: attempt after an edit", "check: attempt after a delay", "limit set: ok", "throttle answered", "snooze answered",
		"check: attempt has the step", "check: attempt has the signal", "check: attempt has the artefact", "suspension answered", "signal answered: ok",
		"edit answered: ok", "edit answered: revised", "edit answered: wrong_status",
		"check: in order after healing", "check: all nodes equal in the end", "check: archive verified",
	}
	for _, kind := range simLateKinds {
		wanted = append(wanted, "late: "+kind)
	}
	for _, f := range simFaults() {
		wanted = append(wanted, "fault: "+f.name)
	}
	for _, what := range wanted {
		if counts.Count(what) == 0 {
			missing = append(missing, what)
		}
	}
	return missing
}
