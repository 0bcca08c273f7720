package archive

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/internal/storagetest/script"
	"osqueue/storage"
	"osqueue/storage/document"
)

// TestScenes plays the files of testdata/scenes in simulated time. "play" takes these commands, one a line:
//
//	world [young|empty], fixed [small] [within]   a new world; fixed is fixedWorld, whose window has passed its
//	                                     checkpoint unless it is within; empty begins with a checkpoint of no state
//	checkpoint, record N, work N, cut, compact, term, flush [bare], age, newer, doctored, diverge,
//	enqueue ID PAYLOAD                   what the leader does
//	put KEY [text=TEXT], remove KEY, clear, damage KEY HOW, cutoff KEY BYTES, change KEY old=(TEXT) [new=(TEXT)], strangers
//	keep KEY [as=KEY], return KEY        remembers an object, and may store it under another key, and puts it back
//
// and these print what they find, with the errors by their kind:
//
//	names, open [KEY], at [lsn=T-I] [ms=N] [within=N]…, load, begin, verify, missing
//	repair [force] [after=D], collect [before=N] [most=N] [copies], places
//
// Times are in ms, of a state since the beginning, and before= since the root's checkpoint. A KEY is root, or
// KIND:T-I with the last LSN of a segment, index, manifest or part. "places" checks all states.
func TestScenes(t *testing.T) {
	t.Parallel()
	datadriven.Walk(t, "testdata/scenes", func(t *testing.T, path string) {
		synctest.Test(t, func(t *testing.T) {
			s := &scene{t: t, kept: make(map[string]storedObject)}
			datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
				var out strings.Builder
				for _, c := range script.Input(t, d) {
					if text := s.play(c); text != "" {
						fmt.Fprintln(&out, text)
					}
				}
				return out.String()
			})
		})
	})
}

const sceneStart = 1_700_000_000_000 // ms

// scene is a world that a transcript changes and looks at.
type scene struct {
	*world
	t       *testing.T
	kept    map[string]storedObject
	copies  Copies
	history *History
}

type storedObject struct {
	key  string
	data []byte
}

func (s *scene) play(c script.Command) string {
	for _, kind := range []func(script.Command) (string, bool){s.act, s.meddle, s.look} {
		if out, ok := kind(c); ok {
			return out
		}
	}
	s.t.Fatalf("command %q is not known", c.Name)
	return ""
}

func (s *scene) number(c script.Command) int { return int(script.Number(s.t, c.ID(0))) }

// act is what leaders do.
func (s *scene) act(c script.Command) (out string, ok bool) {
	switch c.Name {
	case "world":
		s.world = newWorld(s.t.Context(), sceneStart)
		switch c.ID(0) {
		case "young":
			s.young()
		case "empty": // as a new cluster begins
			b, err := WriteCheckpoint(s.ctx, s.bucket, lineage, fsm.LSN{}, fsm.New().View())
			must(err)
			s.leader.arc, s.leader.tail = &document.Archive{Checkpoint: b}, NewTail(b.LSN)
			must(s.leader.tail.Append(s.leader.r.entries...))
		}
	case "fixed":
		s.world = fixedWorld(s.t.Context(), !c.Has("small"))
		if !c.Has("within") {
			s.age()
		}
	case "checkpoint":
		s.checkpoint(s.leader)
	case "record":
		s.record(s.number(c))
	case "work":
		s.leader.r.work(s.number(c))
	case "enqueue":
		s.leader.r.apply(enqueue(&fsmpb.NewJob{Id: c.ID(0), Payload: []byte(c.ID(1))}))
	case "cut":
		s.cut(s.leader)
	case "compact":
		s.compact(s.leader)
	case "term":
		s.leader.r.newTerm()
	case "flush":
		s.flush(c.Has("bare"))
	case "age":
		s.age()
	case "newer": // an entry that this version does not know
		last := s.root.Archive.Tail.Last
		must(s.leader.tail.Append(Entry{LSN: fsm.LSN{Term: last.Term, Index: last.Index + 1}, At: s.root.Now(), Data: []byte{8, fsm.MaxLevel + 1}}))
		s.leader.r.work(1)
	case "doctored": // a checkpoint of another state
		other := s.leader.r.clone()
		lsn := other.lsn()
		other.m.Apply(lsn.Index, lsn.Term, &fsmpb.Batch{Version: fsm.MaxLevel, NowMs: other.now, Mutations: []*fsmpb.Mutation{enqueue(&fsmpb.NewJob{Id: "x"})}})
		b, err := WriteCheckpoint(s.ctx, s.bucket, lineage, lsn, other.m.View())
		must(err)
		s.leader.arc = &document.Archive{Checkpoint: b}
	case "diverge": // another checksum than that of the state, as another release would have it
		r := s.leader.r
		first := len(r.entries)
		r.asked = fsm.LSN{}
		r.apply(r.checkState())
		r.sums[r.lsn()] = [32]byte{1}
		r.apply(r.checkState())
		must(s.leader.tail.Append(r.entries[first:]...))
	default:
		return "", false
	}
	return "", true
}

// key returns the key of an object that the transcript names.
func (s *scene) key(name string) string {
	if name == "" || name == "root" {
		return rootKey
	}
	if o, ok := s.kept[name]; ok {
		return o.key
	}
	for _, key := range s.names() {
		if s.masked(key) == name {
			return key
		}
	}
	return name
}

var checksum = regexp.MustCompile(`[0-9a-f]{16} here`) // it depends on the feature level

var objectKey = regexp.MustCompile(`(log|checkpoint)/` + lineage + `/[^ ":\n]+`)

// masked replaces the keys in a text, which have random parts, by the names of transcripts.
func (s *scene) masked(text string) string {
	text = objectKey.ReplaceAllStringFunc(text, func(key string) string {
		n, ok := parseName(key)
		if !ok {
			return key
		}
		kind := map[kind]string{segmentKind: "segment", segmentIndexKind: "index", manifestKind: "manifest", partKind: "part"}[n.kind]
		return fmt.Sprintf("%s:%s", kind, n.last)
	})
	text = strings.ReplaceAll(text, fmt.Sprintf("version %d is unknown (newest known: %d)", fsm.MaxLevel+1, fsm.MaxLevel), "version NEXT is unknown")
	return strings.ReplaceAll(checksum.ReplaceAllString(text, "SUM here"), lineage, "LINEAGE")
}

// meddle changes objects behind the leaders' backs.
func (s *scene) meddle(c script.Command) (out string, ok bool) {
	key := s.key(c.ID(0))
	switch c.Name {
	case "put":
		_ = s.bucket.Delete(s.ctx, key)
		must(Put(s.ctx, s.bucket, key, []byte(c.Text("text"))))
	case "remove":
		must(s.bucket.Delete(s.ctx, key))
	case "clear":
		for _, key := range s.names() {
			must(s.bucket.Delete(s.ctx, key))
		}
	case "damage":
		s.damage(key, damages[c.ID(1)])
	case "cutoff":
		s.damage(key, func(data []byte) []byte { return data[:script.Number(s.t, c.ID(1))] })
	case "change":
		s.damage(key, func(data []byte) []byte {
			changed := bytes.Replace(data, []byte(c.Text("old")), []byte(c.Text("new")), 1)
			if c.Text("old") == "" {
				changed = append(bytes.Clone(data), c.Text("new")...)
			}
			if bytes.Equal(changed, data) {
				s.t.Fatalf("%s has no %s", c.ID(0), c.Text("old"))
			}
			return changed
		})
	case "strangers":
		for _, key := range strangers {
			must(Put(s.ctx, s.bucket, key, []byte("x")))
		}
	case "keep":
		o, err := s.bucket.Get(s.ctx, key)
		must(err)
		if as := c.Text("as"); as != "" {
			must(Put(s.ctx, s.bucket, as, o.Data))
		}
		s.kept[c.ID(0)] = storedObject{key, o.Data}
	case "return":
		must(Put(s.ctx, s.bucket, key, s.kept[c.ID(0)].data))
	default:
		return "", false
	}
	return "", true
}

// look prints what readers and repairs find.
func (s *scene) look(c script.Command) (out string, ok bool) {
	switch c.Name {
	case "names":
		return s.list(s.names()), true
	case "open":
		return s.open(s.key(c.ID(0))), true
	case "at":
		return s.at(c), true
	case "load":
		m, err := Machine(s.ctx, s.bucket, s.root)
		return s.state(m, err), true
	case "begin":
		at, err := s.history.Beginning(s.ctx)
		return fmt.Sprintf("it begins at %d ms%s", at.UnixMilli()-sceneStart, s.kind(err)), true
	case "verify":
		return s.verify(), true
	case "missing":
		found, err := NewAudit(s.bucket).Missing(s.ctx, s.root.Archive)
		return fmt.Sprintf("missing: %+v%s", found, s.kind(err)), true
	case "repair":
		return s.repair(c), true
	case "collect":
		return s.collectAll(c), true
	case "places":
		s.checkPlaces(s.t)
		return "", true
	}
	return "", false
}

func (s *scene) list(keys []string) string {
	if len(keys) == 0 {
		return "none"
	}
	return s.masked(strings.Join(keys, "\n"))
}

// kind prints the kinds of an error, and its text.
func (s *scene) kind(err error) (text string) {
	if err == nil {
		return ""
	}
	for name, of := range map[string]error{
		"not kept": ErrNotKept, "damaged": ErrDamaged, "too large": ErrTooLarge, "nothing good": ErrNothingGood, "alive": ErrAlive,
		"not found": storage.ErrNotFound, "bad entry": fsm.ErrEntry, "diverged": fsm.ErrDiverged, "newer": errNewer,
	} {
		if errors.Is(err, of) {
			text += " (" + name + ")"
		}
	}
	return ", error" + text + ": " + s.masked(err.Error())
}

// state prints the LSN of a state, which must be one that the chain had.
func (s *scene) state(m *fsm.Machine, err error) string {
	if err != nil {
		return s.kind(err)[2:]
	}
	lsn := m.LSN()
	if sum, known := s.chain[lsn]; known && m.View().Hash() != sum {
		return fmt.Sprintf("another state of %s", lsn)
	} else if !known {
		return fmt.Sprintf("a state of %s with %d jobs", lsn, m.Counts().Sum())
	}
	return lsn.String()
}

func (s *scene) spans(all []Span) string {
	var text []string
	for _, p := range all {
		text = append(text, fmt.Sprintf("%s to %s, %d to %d ms", p.From, p.To, p.Since.UnixMilli()-sceneStart, p.Until.UnixMilli()-sceneStart))
	}
	return strings.Join(text, "; ")
}

func (s *scene) open(key string) string {
	h, err := Open(s.ctx, s.bucket, key)
	if err != nil {
		return s.kind(err)[2:]
	}
	s.history = h
	return fmt.Sprintf("overtaken %v, spans %s", h.Document().Overtaken, s.spans(h.Spans()))
}

func (s *scene) at(c script.Command) string {
	var to Target
	var err error
	if text := c.Text("lsn"); text != "" {
		to.LSN, err = fsm.ParseLSN(text)
		must(err)
	}
	if ms := c.Optional("ms"); ms != nil {
		to.Time = time.UnixMilli(sceneStart + *ms)
	}
	h := s.history
	if most := c.Number("within", 0); most > 0 {
		h = h.Within(most)
	}
	return s.state(h.At(s.ctx, to))
}

func (s *scene) verify() string {
	r, err := Verify(s.ctx, s.bucket, rootKey)
	if err != nil {
		return s.kind(err)[2:]
	}
	text := fmt.Sprintf("sound %v, %d checkpoints, %d segments, %d indexes, %d entries, %d strays, spans %s",
		r.Sound(), r.Checkpoints, r.Segments, r.SegmentIndexes, r.Entries, r.Strays, s.spans(r.Spans))
	for _, key := range r.Gone {
		text += "\ngone: " + s.masked(key)
	}
	for _, p := range r.Problems {
		text += "\nproblem: " + s.masked(p.Key) + s.kind(p.Err)
	}
	return text
}

// repair repairs the document. What it has written is checked, and the copy of the old document; a repair that
// writes nothing leaves the bucket as it is.
func (s *scene) repair(c script.Command) string {
	o := RepairOptions{Force: c.Has("force")}
	if after := c.Text("after"); after != "" {
		o.Now = time.UnixMilli(s.root.BrokerHeartbeat).Add(script.Duration(s.t, after))
	}
	old, _ := s.bucket.Get(s.ctx, rootKey)
	before := s.names()
	r, err := Repair(s.ctx, s.bucket, rootKey, o)
	if r == nil || !r.Written {
		if after := s.names(); !slices.Equal(after, before) {
			s.t.Errorf("nothing was written, and there are %q after %q", after, before)
		}
		return "nothing written" + s.kind(err)
	}
	s.checkRepaired(s.t, r, fsm.LSN{})
	if r.Copy != "" {
		if o, err := s.bucket.Get(s.ctx, r.Copy); err != nil || !bytes.Equal(o.Data, old.Data) {
			s.t.Errorf("the copy %q: %v", r.Copy, err)
		}
	}
	return fmt.Sprintf("written, of %s, sound before %v, copied %v, missing %v%s", r.To, r.Before.Sound(), r.Copy != "", r.Missing, s.kind(err))
}

func (s *scene) collectAll(c script.Command) string {
	before := farAway
	if ms := c.Optional("before"); ms != nil {
		before = time.UnixMilli(s.root.Archive.Checkpoint.At + *ms)
	}
	var needed []Copy
	if c.Has("copies") {
		var more bool
		var err error
		if needed, more, err = s.copies.Read(s.ctx, s.bucket); err != nil || more {
			s.t.Fatal(more, err)
		}
	}
	b := &deletions{Bucket: s.bucket}
	n, err := Collect(s.ctx, b, s.root, before, int(c.Number("most", 100)), nil, needed...)
	return fmt.Sprintf("%d deleted%s\n%s", n, s.kind(err), s.list(b.keys))
}
