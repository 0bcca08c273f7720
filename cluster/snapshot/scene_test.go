package snapshot

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/hashicorp/raft"

	"osqueue/internal/storagetest/script"
)

// TestScenes plays the files of testdata/scenes with a store on a disk. A snapshot is TERM-INDEX, and "play" takes
// these commands, one a line:
//
//	take S, begin S, close S, cancel S    a snapshot, in one or in steps
//	start                                 another process
//	damage S FILE HOW, change S FILE old=(TEXT) new=(TEXT), remove S, make S|NAME [FILE] (a directory), put NAME
//	list, read S, open NAME, names, aside, status, prepare [TERM:FROM-TO…] (with a log)
//
// FILE is state, meta or record, HOW is flipped, cut, empty, removed or longer. A read checks the bytes and the
// description, and prints the first error.
func TestScenes(t *testing.T) {
	datadriven.Walk(t, "testdata/scenes", func(t *testing.T, path string) {
		s := &scene{t: t, dir: t.TempDir(), ids: make(map[string]string), sinks: make(map[string]raft.SnapshotSink)}
		s.start()
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			var out strings.Builder
			for _, c := range script.Input(t, d) {
				if text := s.play(c); text != "" {
					fmt.Fprintln(&out, s.masked(text))
				}
			}
			return out.String()
		})
	})
}

type scene struct {
	*Store
	t     *testing.T
	dir   string
	ids   map[string]string // by name
	sinks map[string]raft.SnapshotSink
	told  int // how often damage was reported
}

func (s *scene) start() {
	s.Store = newStore(s.t, s.dir)
	s.damaged = func(error) { s.told++ }
}

// masked replaces ids and paths, which differ from run to run.
func (s *scene) masked(text string) string {
	text = strings.ReplaceAll(text, s.dir, "DIR")
	for name, id := range s.ids {
		text = strings.ReplaceAll(text, id, "["+name+"]")
	}
	return text
}

func outcome(err error) string {
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, ErrDamaged):
		return "damaged: " + err.Error()
	case errors.Is(err, errNewer):
		return "newer"
	case errors.Is(err, os.ErrNotExist):
		return "not there"
	}
	return err.Error()
}

func (s *scene) begin(name string) {
	var term, index uint64
	if _, err := fmt.Sscanf(name, "%d-%d", &term, &index); err != nil {
		s.t.Fatal(err)
	}
	sink := begin(s.t, s.Store, term, index)
	_, _ = sink.Write(content(index)) // an error comes at the end
	s.ids[name], s.sinks[name] = sink.ID(), sink
}

func (s *scene) play(c script.Command) string {
	name, id := c.ID(0), s.ids[c.ID(0)]
	path := filepath.Join(s.dir, localDir, id, map[string]string{"state": stateFile, "meta": metaFile, "record": recordFile}[c.ID(1)])
	switch c.Name {
	case "take":
		s.begin(name)
		return strings.TrimPrefix(outcome(s.sinks[name].Close()), "ok")
	case "begin":
		s.begin(name)
	case "close":
		return outcome(s.sinks[name].Close())
	case "cancel":
		return outcome(s.sinks[name].Cancel())
	case "start":
		s.start()
	case "damage":
		s.spoil(path, c.ID(2))
	case "change":
		data, err := os.ReadFile(path)
		bad := bytes.Replace(data, []byte(c.Text("old")), []byte(c.Text("new")), 1)
		if bytes.Equal(bad, data) {
			s.t.Fatalf("%s is not in %s", c.Text("old"), data)
		}
		s.must(err, os.WriteFile(path, bad, 0o600))
	case "remove":
		s.must(os.RemoveAll(filepath.Join(s.dir, localDir, id)))
	case "make":
		dir := filepath.Join(s.dir, localDir, name)
		if id != "" { // in the place of a file of a snapshot that is being written, or of the snapshot
			dir = strings.Replace(path, id, id+tmpSuffix, 1)
			if c.ID(1) == "" {
				dir = filepath.Join(s.dir, localDir, id, "x")
			}
			_ = os.Remove(dir)
		}
		s.must(os.MkdirAll(dir, 0o700))
	case "put":
		s.must(os.WriteFile(filepath.Join(s.dir, localDir, name), nil, 0o600))
	default:
		return s.look(c, id)
	}
	return ""
}

func (s *scene) must(errs ...error) {
	s.t.Helper()
	if err := errors.Join(errs...); err != nil {
		s.t.Fatal(err)
	}
}

// spoil damages a file.
func (s *scene) spoil(path, how string) {
	switch how {
	case "flipped":
		flip(s.t, path)
	case "removed":
		s.must(os.Remove(path))
	case "empty":
		s.must(os.Truncate(path, 0))
	case "cut":
		info, err := os.Stat(path)
		s.must(err, os.Truncate(path, info.Size()/2))
	case "longer":
		data, err := os.ReadFile(path)
		s.must(err, os.WriteFile(path, append(data, 'x'), 0o600))
	}
}

// look prints what the store says, and what is on its disk.
func (s *scene) look(c script.Command, id string) string {
	switch c.Name {
	case "list":
		var all []string
		for _, m := range mustList(s.t, s.Store) {
			if fmt.Sprint(m.Configuration) != fmt.Sprint(threeServers) {
				s.t.Errorf("the list describes it as %+v", m)
			}
			all = append(all, m.ID)
		}
		return "snapshots " + strings.Join(all, " ")
	case "read":
		return s.read(c.ID(0), id)
	case "open":
		_, _, err := s.Open(c.ID(0))
		return outcome(err)
	case "names":
		return fmt.Sprint(len(dirNames(s.t, s.dir, localDir)), " names")
	case "aside":
		var all []string
		for _, name := range dirNames(s.t, s.dir, asideDir) {
			before, _, _ := strings.Cut(name, "~")
			all = append(all, before)
		}
		return "aside " + strings.Join(all, " ")
	case "status":
		st := s.Status()
		return fmt.Sprintf("newest %d-%d, damaged %v, reported %d times, %d sure and %d begun", st.Local.Term, st.Local.Index, st.Damaged != "", s.told, len(s.sure), len(s.own))
	case "prepare":
		var spans []span
		for _, text := range c.IDs {
			var p span
			_, err := fmt.Sscanf(text, "%d:%d-%d", &p.term, &p.from, &p.to)
			s.must(err)
			spans = append(spans, p)
		}
		return outcome(s.Prepare(logOf(s.t, spans...)))
	}
	s.t.Fatalf("command %q is not known", c.Name)
	return ""
}

// read reads a snapshot, whose bytes and description must be those that were written.
func (s *scene) read(name, id string) string {
	m, rc, err := s.Open(id)
	if err != nil {
		return outcome(err)
	}
	data, err := io.ReadAll(rc)
	_ = rc.Close()
	whole := content(m.Index)
	if err != nil {
		if len(data) >= len(whole) {
			s.t.Errorf("%s: all bytes are read before the error", name)
		}
		return "in the middle, " + outcome(err)
	}
	if fmt.Sprintf("%d-%d", m.Term, m.Index) != name || m.ID != id || !bytes.Equal(data, whole) || m.Size != int64(len(data)) ||
		fmt.Sprint(m.Configuration) != fmt.Sprint(threeServers) || m.ConfigurationIndex != min(m.Index, 3) {
		s.t.Errorf("%s is %+v and %d bytes", name, m, len(data))
	}
	return "whole"
}
