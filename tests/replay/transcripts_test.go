package main

import (
	"context"
	"flag"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"osqueue/internal/storagetest"
	"osqueue/tests/replay/player"
	"osqueue/tests/replay/transcript"
)

var shrink = flag.Bool("shrink", false, "take the cases that pass out of "+pendingFile)

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

// TestTranscripts plays every recorded exchange against three nodes: first against the leader,
// then through a follower. A case that fails must be in pending.txt, and every case listed
// there must fail.
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
	pending, err := readPending(pendingFile)
	if err != nil {
		t.Fatal(err)
	}
	j := &outcomes{results: make(map[string]player.Result)}
	t.Run("play", func(t *testing.T) {
		for _, s := range setups {
			t.Run(s.name, func(t *testing.T) {
				t.Parallel()
				s.play(t, at, files, pending, j)
			})
		}
	})
	if t.Failed() {
		return
	}
	checkComplete(t, files, j)
	checkPending(t, pending, j)
}

// pendingPatience is the time for which a case is repeated that is expected to fail.
const pendingPatience = 300 * time.Millisecond

func (s *setup) play(t *testing.T, at port, files []transcript.File, pending []string, j *outcomes) {
	o := player.Options{NoSlow: testing.Short()}
	patience := func(m mode) func(string, *transcript.Case) time.Duration {
		return func(file string, c *transcript.Case) time.Duration {
			if slices.Contains(pending, string(m)+" "+file+" "+c.Name) {
				return pendingPatience
			}
			return time.Duration(c.EventuallyMs) * time.Millisecond
		}
	}
	if s.start == nil {
		for _, m := range modes {
			o.Patience = patience(m)
			o.Start = (&seeder{t: t, mode: m, at: at}).start
			s.playAs(t, m, o, files, j)
		}
		return
	}
	c := s.start(t, at)
	o.Reset = at.emptying(c)
	if s.name == transcript.ConfigStorageFail { // nothing can be written, so the queue stays empty
		o.Reset = func(context.Context) error { return nil }
	}
	for _, m := range modes {
		o.Servers, o.Patience = servers(c, m, at), patience(m)
		s.playAs(t, m, o, files, j)
	}
}

func (s *setup) playAs(t *testing.T, m mode, o player.Options, files []transcript.File, j *outcomes) {
	t.Helper()
	p := player.New(o)
	defer p.Close()
	for _, f := range files {
		results, err := p.Play(context.Background(), f, s.keep)
		j.add(m, results)
		if err != nil {
			t.Fatal(err)
		}
	}
}

// checkComplete checks that every case that is a request was played.
func checkComplete(t *testing.T, files []transcript.File, j *outcomes) {
	t.Helper()
	for _, f := range files {
		for i := range f.Cases {
			c := &f.Cases[i]
			for _, m := range modes {
				r, played := j.results[string(m)+" "+f.Name+" "+c.Name]
				if want := c.Played(); played != want {
					t.Errorf("%s %s, asked of the %s: played is %v", f.Name, c.Name, m, played)
				}
				if r.Outcome == player.Skipped && !testing.Short() {
					t.Errorf("%s was skipped: %s", r.Name(), r.Why)
				}
			}
		}
	}
}

// checkPending compares the results with the list of cases that must fail.
func checkPending(t *testing.T, pending []string, j *outcomes) {
	t.Helper()
	verdicts := judge(j.results, pending)
	if *shrink {
		if err := shrinkPending(pendingFile, verdicts.passing); err != nil {
			t.Fatal(err)
		}
		verdicts.passing = nil
	}
	for _, name := range verdicts.failing {
		var text strings.Builder
		r := j.results[name]
		describe(&text, &r)
		t.Errorf("failed: %s\n%s", name, text.String())
	}
	for _, name := range verdicts.passing {
		t.Errorf("passes, and is to be taken out of %s (-shrink does it): %s", pendingFile, name)
	}
	for _, name := range verdicts.unknown {
		t.Errorf("is listed, and there is no such case: %s", name)
	}
	if testing.Verbose() {
		logPending(t, pending, j)
	}
	t.Logf("%d results, %d of them pending", len(j.results), len(pending))
}

// logPending logs why each case is pending.
func logPending(t *testing.T, pending []string, j *outcomes) {
	t.Helper()
	for _, name := range pending {
		if r := j.results[name]; r.Diff != nil {
			var text strings.Builder
			describe(&text, &r)
			t.Logf("pending: %s\n%s", name, text.String())
		}
	}
}

// verdicts are the cases whose result does not match the list.
type verdicts struct {
	failing []string // and not pending
	passing []string // and pending
	unknown []string // pending, and not played
}

func judge(results map[string]player.Result, pending []string) verdicts {
	var v verdicts
	for name, r := range results {
		listed := slices.Contains(pending, name)
		switch right := r.Outcome == player.Pass || r.Outcome == player.Quirk; {
		case r.Outcome == player.Skipped:
		case listed && right:
			v.passing = append(v.passing, name)
		case !listed && !right:
			v.failing = append(v.failing, name)
		}
	}
	for _, name := range pending {
		if _, ok := results[name]; !ok && !isNeed(name) {
			v.unknown = append(v.unknown, name)
		}
	}
	for _, list := range [][]string{v.failing, v.passing, v.unknown} {
		slices.Sort(list)
	}
	return v
}
