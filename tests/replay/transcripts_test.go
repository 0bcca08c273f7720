package replay

import (
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"osqueue/internal/storagetest"
	"osqueue/tests/replay/transcript"
)

// TestMain ignores a goroutine that a library of the GCS client starts on import. The goroutine that
// waits for signals must not begin in simulated time, which it would stop.
func TestMain(m *testing.M) {
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	signal.Stop(hangups)
	storagetest.AtOnce(8) // those in real time wait
	storagetest.SetS3Credentials()
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("go.opencensus.io/stats/view.(*worker).start"))
}

// outcomes has the results of all cases, by mode and name.
type outcomes struct {
	mu      sync.Mutex
	results map[string]result
}

func (j *outcomes) add(m mode, results []result) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, r := range results {
		j.results[string(m)+" "+r.name()] = r
	}
}

// deviations are the cases that must fail, with the reason.
var deviations = map[string]string{
	"osqueue/storage_errors.json fail-heartbeat/01 heartbeat": "reports pass while writes are refused (docs/migrating.md)",
}

// TestTranscripts plays every recorded exchange against two nodes: against the leader, and
// through a follower.
func TestTranscripts(t *testing.T) { //nolint:tparallel // playAll waits for its own subtests, which are parallel
	t.Parallel()
	playAll(t, plainPort)
}

// TestTranscriptsOfLegacyClients plays them at the port for legacy clients of nodes that have
// certificates and ask for tokens.
func TestTranscriptsOfLegacyClients(t *testing.T) { //nolint:tparallel // as above
	t.Parallel()
	playAll(t, legacyPort)
}

func playAll(t *testing.T, at port) {
	files, err := transcript.Recordings("../../compat")
	if err != nil {
		t.Fatal(err)
	}
	var all []sequence
	for _, f := range files {
		all = append(all, sequences(f)...)
	}
	j := &outcomes{results: make(map[string]result)}
	t.Run("play", func(t *testing.T) {
		for config := range setups {
			own := slices.DeleteFunc(slices.Clone(all), func(s sequence) bool { return s.cases[0].Config != config })
			together := len(own)
			if config == transcript.ConfigSeeded { // each starts its own nodes
				together = 1
			}
			for _, m := range modes {
				for some := range slices.Chunk(own, together) {
					t.Run(config+"/"+string(m)+"/"+some[0].cases[0].Seq, func(t *testing.T) {
						t.Parallel()
						j.playOn(t, config, at, m, some)
					})
				}
			}
		}
	})
	if !t.Failed() {
		j.check(t, files)
	}
}

// playOn plays sequences one after the other on nodes of their own.
func (j *outcomes) playOn(t *testing.T, config string, at port, m mode, some []sequence) {
	play := func(t *testing.T) {
		p := newPlayerOn(t, config, at, m)
		p.open()
		defer p.close()
		for _, s := range some {
			results, err := p.play(t.Context(), s)
			j.add(m, results)
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	if config == transcript.ConfigStorageFail { // its bucket has sockets
		play(t)
		return
	}
	simulated(t, play)
}

// check checks that every case that is a request was played, in all modes, and its result.
func (j *outcomes) check(t *testing.T, files []transcript.File) {
	t.Helper()
	for _, f := range files {
		for i := range f.Cases {
			c := &f.Cases[i]
			for _, m := range modes {
				of := f.Name + " " + c.Name
				name := string(m) + " " + of
				r, played := j.results[name]
				why, deviates := deviations[of]
				switch failed := r.outcome == fail; {
				case played != c.Played():
					t.Errorf("%s: played is %v", name, played)
				case deviates && !failed:
					t.Errorf("%s passes, and should not: %s", name, why)
				case failed && !deviates:
					t.Errorf("%s failed:\n%s\n%v", name, r.request, r.diff)
				}
			}
		}
	}
	t.Logf("%d results", len(j.results))
}
