package replay

import (
	"context"
	"path/filepath"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"osqueue/internal/storagetest"
	"osqueue/tests/replay/player"
	"osqueue/tests/replay/transcript"
)

// TestMain ignores a goroutine that a library of the GCS client starts on import.
func TestMain(m *testing.M) {
	storagetest.AtOnce(8) // eight long setups, most of whose time is waiting
	storagetest.SetS3Credentials()
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("go.opencensus.io/stats/view.(*worker).start"))
}

// recordings returns all files of the project.
func recordings(t *testing.T) []transcript.File {
	t.Helper()
	paths, err := filepath.Glob("../../compat/*/testdata/transcripts/*.json")
	if err != nil || len(paths) < 35 {
		t.Fatalf("%d transcripts: %v", len(paths), err)
	}
	var files []transcript.File
	for _, path := range paths {
		f, err := transcript.LoadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	return files
}

// outcomes has the results of all cases, by mode and name.
type outcomes struct {
	mu      sync.Mutex
	results map[string]player.Result
}

func (j *outcomes) add(m mode, results []player.Result) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, r := range results {
		j.results[string(m)+" "+r.Name()] = r
	}
}

// deviations are the cases that must fail, with the reason.
var deviations = map[string]string{
	"osqueue/storage_errors.json fail-heartbeat/01 heartbeat": "reports pass while writes are refused (docs/migrating.md)",
}

// TestTranscripts plays every recorded exchange against three nodes: first against the leader,
// then through a follower.
func TestTranscripts(t *testing.T) { //nolint:tparallel // play waits for its own subtests, which are parallel
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
	files := recordings(t)
	j := &outcomes{results: make(map[string]player.Result)}
	t.Run("play", func(t *testing.T) {
		for _, s := range setups {
			t.Run(s.name, func(t *testing.T) {
				t.Parallel()
				s.play(t, at, files, j)
			})
		}
	})
	if !t.Failed() {
		j.check(t, files)
	}
}

func (s *setup) play(t *testing.T, at port, files []transcript.File, j *outcomes) {
	if s.name == slow && testing.Short() {
		t.Skip("slow")
	}
	var o player.Options
	if s.start == nil {
		for _, m := range modes {
			o.Start = (&seeder{t: t, mode: m, at: at}).start
			s.playAs(t, m, o, files, j)
		}
		return
	}
	c := s.start(t, at)
	o.Reset = emptying(c)
	if s.name == transcript.ConfigStorageFail { // nothing can be written, so the queue stays empty
		o.Reset = func(context.Context) error { return nil }
	}
	for _, m := range modes {
		o.Servers = servers(c, m, at)
		s.playAs(t, m, o, files, j)
	}
}

func (s *setup) playAs(t *testing.T, m mode, o player.Options, files []transcript.File, j *outcomes) {
	t.Helper()
	p := player.New(o)
	defer p.Close()
	for _, f := range files {
		results, err := p.Play(t.Context(), f, s.keep)
		j.add(m, results)
		if err != nil {
			t.Fatal(err)
		}
	}
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
				switch failed := r.Outcome == player.Fail; {
				case c.Slow && testing.Short():
				case played != c.Played():
					t.Errorf("%s: played is %v", name, played)
				case deviates && !failed:
					t.Errorf("%s passes, and should not: %s", name, why)
				case failed && !deviates:
					t.Errorf("%s failed:\n%s\n%v", name, r.Request, r.Diff)
				}
			}
		}
	}
	t.Logf("%d results", len(j.results))
}
