package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"osqueue/cluster/leader"
	"osqueue/cluster/membership"
	"osqueue/cluster/notify"
	"osqueue/cluster/raftlog"
	"osqueue/election"
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/internal/storagetest/fault"
	"osqueue/internal/storagetest/script"
	"osqueue/storage"
	"osqueue/storage/archive"
	"osqueue/storage/document"
)

// TestScenes plays the files of testdata/scenes with nodes in real time. "play" takes these commands, one a line;
// "put" writes the document below it, in which NOW-N is a time in ms, and "start" and "again" remember
// the options of the nodes of a prefix.
//
// Nodes: start PREFIX [nodes=N] [OPTION…], again NODE [disk=empty], stop NODE…, newcomer NAME, snapshot, sleep D,
// lead [PREFIX…] [within=D] (waits for a leader, which the next commands use), at NODE, let NAME NODE, move NODE…, copy NODE,
// exclude NODE (from raft's configuration), adopt, stray NODE ID. A NODE is a name, leader,
// follower, or what let has named. OPTION is a setting; see configure.
//
// Mutations, which the leader must accept: the lines of package fsm's transcripts; "try" prints the answer of one.
// "flush" waits until the bucket has everything, and "confirm" until the leader says so.
//
// The bucket: edit ID (adds a job to the document), replace re=RE|old=TEXT new=TEXT, keep NAME, return NAME [edit=ID]
// [alone] (the document, edited, and in an empty bucket), empty, remove KEY, hurt segment|manifest|part removed|flipped, marker [text=TEXT], abandon (any cluster may take the document), and fault NAME PREFIX KIND [ops=(OP,…)] [key=PREFIX],
// which end NAME ends, for the nodes of a prefix.
//
// Disks of stopped nodes: spoil NODE log|emptied|witness|ahead|text|keep|older|leftover. "garbage" commits an entry that no node can apply.
//
// What is there: jobs ID… [on=NODE], job ID, total, document, status [NODE], raft NODE, leads NODE, crons, witness NODE,
// linearize NODE, standby, log NAME, copies, known, kept, records, carried, servers, voter,
// announcements, restored, same, level, hits NAME, finding, about, checked NODE, fatal
// NODE, seeded NODE, trysnapshot NODE, addresses, fence, refusing, events JOB, meanwhile, and open NODE, which tries to start one. "await CMD
// [has=TEXT] [lacks=TEXT]" waits for that, "never CMD [has=TEXT] [lacks=TEXT] [for=D]" fails if it is so, and "mark" says from when on
// document and servers are compared and events counted. With with=(MUTATION), each look is preceded by one.
func TestScenes(t *testing.T) {
	t.Parallel()
	datadriven.Walk(t, "testdata/scenes", func(t *testing.T, path string) {
		t.Parallel()
		s := &scene{
			lab: newLab(t), members: make(map[string]*member), options: make(map[string]script.Command), paths: make(map[string]*fault.Bucket),
			rules: make(map[string]*fault.Injection), logs: make(map[string]*notes), kept: make(map[string]map[string][]byte),
		}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd == "put" {
				s.put(clockText.ReplaceAllStringFunc(d.Input, func(text string) string {
					ago := script.Number(t, strings.TrimPrefix(text, "NOW"))
					return strconv.FormatInt(time.Now().UnixMilli()+ago, 10)
				}))
				return ""
			}
			var out strings.Builder
			for _, c := range script.Input(t, d) {
				if text := s.play(c); text != "" {
					fmt.Fprintln(&out, text)
				}
			}
			return out.String()
		})
	})
}

var clockText = regexp.MustCompile(`NOW[-+]\d+`)

// scene is a lab that a transcript changes and looks at.
type scene struct {
	*lab
	members map[string]*member // by name, the present process; also those that let has named
	options map[string]script.Command
	paths   map[string]*fault.Bucket // by prefix
	rules   map[string]*fault.Injection
	logs    map[string]*notes
	kept    map[string]map[string][]byte
	at      *member // the leader that commands use
	lsn     fsm.LSN // of the last mutation

	disk    string // copy of a disk
	hurt    string // key of the object that was damaged
	marked  *document.Header
	since   notify.EventID
	servers []raft.ServerID
}

func (s *scene) play(c script.Command) string {
	for _, kind := range []func(script.Command) (string, bool){s.run, s.meddle, s.spoil, s.wait, s.look, s.report} {
		if out, ok := kind(c); ok {
			return out
		}
	}
	s.mutate(c)
	return ""
}

// configure sets the options of the nodes of a prefix.
func (s *scene) configure(prefix string, o script.Command) func(*Config) {
	if s.paths[prefix] == nil {
		s.paths[prefix] = fault.New(s.bucket, 1)
		s.t.Cleanup(func() { _ = s.paths[prefix].Close() })
	}
	return func(c *Config) {
		log := &notes{}
		s.logs[c.Name] = log
		c.Logger = hclog.New(&hclog.LoggerOptions{Name: c.Name, Level: hclog.Info, Output: io.MultiWriter(log, testWriter{s.t})})
		c.Bucket = s.paths[prefix]
		for key, d := range map[string]*time.Duration{
			"retry": &c.StandbyRetry, "interval": &c.StandbyInterval, "outage": &c.MaxFlushLag, "timeout": &c.BrokerTimeout,
			"heartbeat": &c.Flush.Heartbeat, "write": &c.Flush.WriteTimeout, "check": &c.ArchiveCheck, "read": &c.ArchiveRead,
			"statecheck": &c.StateCheck,
		} {
			*d = o.Duration(key, *d)
		}
		if o.Has("segments") || o.Has("archived") {
			c.Flush.TailMax, c.Flush.TailMin, c.Flush.CheckpointMin = 64, 16, 0
		}
		if o.Has("archived") {
			c.Flush.ViewMax = 1
		}
		if o.Has("continues") {
			c.RivalPolicy = RivalContinue
		}
		c.Flush.ViewMax = int(o.Number("view", int64(c.Flush.ViewMax)))
		c.Settings.LeaseMs = o.Duration("lease", time.Duration(c.Settings.LeaseMs)*time.Millisecond).Milliseconds()
		c.Settings.RetainCompletedCount = o.Number("keep", c.Settings.RetainCompletedCount)
		c.Memory = o.Has("memory")
		if c.Memory {
			c.DataDir = ""
		}
		c.Known = o.List("known")
		if term := o.Duration("election", 0); term > 0 {
			c.HeartbeatTimeout, c.ElectionTimeout, c.LeaseTimeout = term, term, term
		}
		if ahead := o.Duration("ahead", 0); ahead != 0 {
			c.Clock = func() time.Time { return time.Now().Add(ahead) }
		}
	}
}

func prefixOf(name string) string { return strings.TrimRight(name, "0123456789") }

// node returns the node of a name.
func (s *scene) node(name string) *member {
	s.t.Helper()
	switch name {
	case "", "leader":
		return s.at
	case "follower":
		for _, key := range slices.Sorted(maps.Keys(s.members)) {
			if m := s.members[key]; m != s.at && m.Name() == key && prefixOf(key) == prefixOf(s.at.Name()) && m.ctx.Err() == nil {
				return m
			}
		}
	}
	m := s.members[name]
	if m == nil {
		s.t.Fatalf("there is no node %q", name)
	}
	return m
}

// run starts and stops nodes.
func (s *scene) run(c script.Command) (out string, ok bool) {
	switch c.Name {
	case "start":
		prefix := c.ID(0)
		s.options[prefix] = c
		for _, m := range s.start(prefix, int(c.Number("nodes", 1)), s.configure(prefix, c)) {
			s.members[m.Name()] = m
		}
	case "again":
		old := s.node(c.ID(0))
		dir := old.cfg.DataDir
		if c.Text("disk") == "empty" {
			dir = s.t.TempDir()
		}
		prefix := prefixOf(old.cfg.Name)
		s.replace(old, s.again(old, dir, s.configure(prefix, s.options[prefix])))
	case "stop":
		for _, name := range c.IDs {
			s.node(name).stop()
		}
	case "newcomer":
		name := c.ID(0)
		if name == "leader" || name == "follower" || s.members[name] != nil {
			name = s.node(name).Name()
		}
		s.logs["newcomer"] = &notes{}
		s.members["newcomer"] = s.newcomer(name, s.at.cfg.Peers, s.logs["newcomer"])
	case "lead":
		begun := time.Now()
		s.lead(c.IDs)
		if most := c.Duration("within", time.Minute); time.Since(begun) > most {
			s.t.Fatalf("there is a leader after %v", time.Since(begun))
		}
	case "move": // to other addresses, with their disks
		var all []*member
		for _, name := range slices.Sorted(maps.Keys(s.members)) {
			all = append(all, s.members[name])
		}
		for i, m := range s.move(all, func(m *member) bool { return slices.Contains(c.IDs, m.Name()) }) {
			s.replace(all[i], m)
		}
	case "copy": // runs a copy of a node's disk, of which the node is idle
		of := s.node(c.ID(0))
		s.members["copy"] = s.start(prefixOf(of.Name()), 1, func(cfg *Config) {
			cfg.DataDir = s.copyOf(of.cfg.DataDir)
			// Raft's configuration contains a server's own address, and the other server is running.
			cfg.RaftAdvertise = string(of.net.LocalAddr())
		})[0]
	case "exclude":
		s.remove(s.node(c.ID(0)).id, s.running(c.IDs[1:])...)
	case "adopt": // as a leader of raft does that is not active
		doc := election.Observed{Doc: s.document()}
		if err := s.at.leader.Adopt(s.t.Context(), s.at.raft.CurrentTerm(), doc); err != nil {
			s.t.Fatal(err)
		}
	case "stray": // another state, without a log entry
		s.node(c.ID(0)).spoil(c.ID(1))
	case "at":
		s.at = s.node(c.ID(0))
	case "let":
		s.members[c.ID(0)] = s.node(c.ID(1))
	case "snapshot":
		if err := s.at.raft.Snapshot().Error(); err != nil {
			s.t.Fatal(err)
		}
	case "garbage": // an entry that no node can apply
		if err := s.at.raft.Apply([]byte("an entry of a later version"), 0).Error(); err != nil {
			s.t.Fatal(err)
		}
	case "sleep":
		time.Sleep(script.Duration(s.t, c.ID(0)))
	default:
		return "", false
	}
	return "", true
}

// replace puts the new process of a node in the place of the old one.
func (s *scene) replace(old, m *member) {
	for name, of := range s.members {
		if of == old {
			s.members[name] = m
		}
	}
	if s.at == old {
		s.at = m
	}
}

// lead waits for a leader among the nodes of the prefixes, or among all.
func (s *scene) lead(prefixes []string) {
	s.t.Helper()
	s.at = s.leader(s.running(prefixes)...)
}

// running returns the nodes of the prefixes that run, or all.
func (s *scene) running(of []string) (all []*member) {
	for name, m := range s.members {
		if m.ctx.Err() == nil && (len(of) == 0 || slices.Contains(of, prefixOf(m.Name())) || slices.Contains(of, name)) {
			all = append(all, m)
		}
	}
	return all
}

// mutate has the leader apply a mutation.
func (s *scene) mutate(c script.Command) {
	s.t.Helper()
	r, lsn, err := s.at.Propose(s.t.Context(), script.Tokens(s.token).Mutation(c))
	if err != nil || !r.Code.Done() {
		s.t.Fatalf("%s %v: %v, %v", c.Name, c.IDs, r.Code, err)
	}
	s.lsn = lsn
}

func (s *scene) token(id string) uint64 {
	if j := s.at.Job(id); j != nil {
		return j.Execution().Token
	}
	return 0
}

// meddle changes objects in the bucket, and breaks the way to it.
func (s *scene) meddle(c script.Command) (out string, ok bool) {
	switch c.Name {
	case "flush":
		s.flushed(s.at, s.lsn)
		s.idle(s.at)
	case "confirm":
		s.flushed(s.at, s.at.View().LSN())
	case "edit":
		s.put(byHand(s.stored(), c.ID(0)))
	case "replace":
		s.eventually("the change of the document", func() bool { return s.changeDocument(c) })
	case "keep":
		s.kept[c.ID(0)] = s.objects()
	case "return":
		document := string(s.kept[c.ID(0)][DocumentKey])
		if id := c.Text("edit"); id != "" {
			document = byHand(document, id)
		}
		if c.Has("alone") {
			s.empty()
		}
		s.put(document)
	case "empty":
		s.empty()
	case "remove":
		if err := s.bucket.Delete(s.t.Context(), c.ID(0)); err != nil {
			s.t.Fatal(err)
		}
	case "marker":
		_ = s.bucket.Delete(s.t.Context(), storage.MarkerKey)
		marker := []byte(c.Text("text"))
		if len(marker) == 0 {
			marker = storage.NewMarker()
		}
		if w := s.bucket.PutIfAbsent(s.t.Context(), storage.MarkerKey, marker); w.Err != nil {
			s.t.Fatal(w.Err)
		}
	case "hurt":
		s.hurt = s.hurtObject(c.ID(0), c.ID(1))
	case "abandon":
		s.release()
	case "fault":
		rule := fault.Rule{Kind: fault.Kind(c.ID(2)), KeyPrefix: c.Text("key")}
		for _, op := range c.List("ops") {
			rule.Ops = append(rule.Ops, storage.Op(op))
		}
		s.rules[c.ID(0)] = s.paths[c.ID(1)].Inject(rule)
	case "end":
		s.rules[c.ID(0)].Stop()
		s.rules[c.ID(0)].Release(s.t.Context())
	default:
		return "", false
	}
	return "", true
}

// changeDocument replaces a text in the document. It reports false if a node has written meanwhile.
func (s *scene) changeDocument(c script.Command) bool {
	obj, err := s.bucket.Get(s.t.Context(), DocumentKey)
	if err != nil {
		s.t.Fatal(err)
	}
	with := clockText.ReplaceAllStringFunc(c.Text("new"), func(string) string { return strconv.FormatInt(time.Now().UnixMilli(), 10) })
	text := strings.Replace(string(obj.Data), c.Text("old"), with, 1)
	if re := c.Text("re"); re != "" {
		text = regexp.MustCompile(re).ReplaceAllLiteralString(string(obj.Data), with)
	}
	if text == string(obj.Data) {
		s.t.Fatalf("the document has no %s%s: %s", c.Text("old"), c.Text("re"), text)
	}
	return s.bucket.PutIfMatch(s.t.Context(), DocumentKey, []byte(text), obj.Version).Outcome == storage.Committed
}

// hurtObject removes an object of a kind that the document names, or flips a bit of it.
func (s *scene) hurtObject(kind, how string) string {
	root := s.document().Archive
	key := root.Checkpoint.Key
	switch kind {
	case "segment":
		key = root.Log[0].Key
	case "part":
		key = strings.TrimSuffix(key, "manifest.json") + "part-000000"
	}
	o, err := s.bucket.Get(s.t.Context(), key)
	if err != nil {
		s.t.Fatal(err)
	}
	if how == "removed" {
		err = s.bucket.Delete(s.t.Context(), key)
	} else {
		flipped := bytes.Clone(o.Data)
		flipped[len(flipped)/2] ^= 1
		err = s.bucket.PutIfMatch(s.t.Context(), key, flipped, o.Version).Err
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return key
}

// leftover is the name of a file that a killed process may leave.
const leftover = ".witness.json.123.tmp"

// spoil damages the disk of a node that is stopped.
func (s *scene) spoil(c script.Command) (out string, ok bool) {
	if c.Name != "spoil" {
		return "", false
	}
	n := s.node(c.ID(0))
	dir := n.cfg.DataDir
	var err error
	switch c.ID(1) {
	case "log":
		err = removeLog(dir)
	case "emptied":
		err = emptyLog(dir)
	case "witness":
		err = os.Remove(filepath.Join(dir, "witness.json"))
	case "keep":
		s.disk = s.copyOf(dir)
	case "older": // the log that was kept
		err = errors.Join(removeLog(dir), os.Rename(filepath.Join(s.disk, "raft"), filepath.Join(dir, "raft")))
	case "leftover":
		err = os.WriteFile(filepath.Join(dir, leftover), nil, 0o600)
	case "ahead": // the witness is of a longer log, and of an earlier term
		w := s.witnessOf(n)
		w.Term, w.VoteTerm, w.Index = w.Term-1, min(w.VoteTerm, w.Term-1), w.Index+1000
		err = raftlog.WriteWitness(dir, w)
	case "text":
		if !replaceInLog(s.t, dir, c.Text("old"), c.Text("new")) {
			s.t.Fatal("there is nothing to damage")
		}
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return "", true
}

// wait waits for what another command prints.
func (s *scene) wait(c script.Command) (out string, ok bool) {
	sub := c.Rest()
	var seen string
	has := func() bool {
		if with := c.Text("with"); with != "" {
			s.mutate(script.Line(s.t, with))
		}
		seen = s.play(sub)
		return strings.Contains(seen, c.Text("has")) && (c.Text("lacks") == "" || !strings.Contains(seen, c.Text("lacks")))
	}
	switch c.Name {
	case "await":
		deadline := time.Now().Add(30 * time.Second)
		for ; !has(); time.Sleep(5 * time.Millisecond) {
			if time.Now().After(deadline) {
				s.t.Fatalf("waited in vain for %s of %s %v, which is: %s", c.Text("has"), sub.Name, sub.IDs, seen)
			}
		}
	case "never":
		s.never(c.Duration("for", time.Second), c.Text("has"), has)
	default:
		return "", false
	}
	return "", true
}

// look prints what nodes say.
func (s *scene) look(c script.Command) (out string, ok bool) {
	switch c.Name {
	case "jobs":
		var all []string
		for _, id := range c.IDs {
			text := id + " none"
			if j := s.node(c.Text("on")).Job(id); j != nil {
				text = fmt.Sprintf("%s %v", id, j.Status)
				if r := string(j.Execution().Result); r != "" {
					text += "=" + r
				}
			}
			all = append(all, text)
		}
		return strings.Join(all, "; "), true
	case "job":
		j := s.at.Job(c.ID(0))
		return fmt.Sprintf("%s %v payload %s priority %d attempts %d token %d", j.ID, j.Status, j.Payload(), j.Priority, j.Attempts, j.Execution().Token&(1<<32-1)), true
	case "total":
		return fmt.Sprint("completed ", s.at.View().Meta().CompletedTotal), true
	case "crons":
		var all []string
		s.at.View().Crons("")(func(k *fsm.Cron) bool { all = append(all, k.Name+" "+k.Spec); return true })
		return strings.Join(all, "; "), true
	case "status":
		st := s.node(c.ID(0)).Status()
		return strings.TrimSpace(fmt.Sprintf("%s %s %s %s", st.Fence, st.FenceReason, st.Refusing, st.ArchiveError)), true
	case "leads":
		_, self := s.node(c.ID(0)).Leader()
		return fmt.Sprint("leads ", self), true
	case "raft":
		return s.node(c.ID(0)).raft.State().String(), true
	case "level":
		return fmt.Sprint("the highest level: ", s.at.Status().Level == fsm.MaxLevel), true
	case "log":
		return s.logs[c.ID(0)].all(), true
	case "carried":
		carried := s.at.Status().Carried
		return fmt.Sprintf("%d jobs, %d ended, %d kept, %d records, with a copy %v", carried.Jobs, carried.Ended, carried.Kept, carried.Records, carried.Copy != ""), true
	case "announcements":
		var all []string
		for _, kind := range announcements(s.at) {
			all = append(all, script.Announcements[1+kind-fsm.BucketAway])
		}
		return strings.Join(all, " "), true
	case "finding":
		found := s.at.Status().ArchiveError
		return fmt.Sprintf("found %v; names it %v; flushed %v", found != "", strings.Contains(found, s.hurt), s.at.WaitFlushed(s.t.Context(), fsm.LSN{})), true
	case "about":
		var all []string
		for _, kind := range s.announcedAbout(s.at, s.hurt) {
			all = append(all, script.Announcements[1+kind-fsm.BucketAway])
		}
		return strings.Join(all, " "), true
	case "checked":
		st := s.node(c.ID(0)).Status()
		return fmt.Sprintf("checked %v %s", !st.CheckedLSN.IsZero(), st.StateError), true
	case "fatal":
		select {
		case err := <-s.node(c.ID(0)).Fatal():
			if dir := s.node(c.ID(0)).cfg.DataDir; errors.Is(err, errForked) && (!errors.Is(err, fsm.ErrDiverged) || !strings.Contains(err.Error(), dir)) {
				s.t.Errorf("the error does not name %s: %v", dir, err)
			}
			return err.Error(), true
		default:
			return "runs", true
		}
	case "trysnapshot":
		_, err := s.node(c.ID(0)).replica.Snapshot()
		return fmt.Sprint(err), true
	case "seeded":
		return fmt.Sprint("from the bucket ", s.node(c.ID(0)).Status().Snapshots.Local.Index >= s.lsn.Index), true
	case "standby":
		return fmt.Sprint("known ", s.at.Status().Standby != ""), true
	case "witness":
		n := s.node(c.ID(0))
		w := s.witnessOf(n)
		_, err := os.Stat(filepath.Join(n.cfg.DataDir, leftover))
		return fmt.Sprintf("of a term %v, has the last mutation %v, leftovers %v", w.Term > 0, w.Index >= s.lsn.Index, err == nil), true
	case "ahead": // by a day or nearly
		least := time.Now().Add(23 * time.Hour).UnixMilli()
		return fmt.Sprint("the clock ", s.at.Now() >= least, ", a job ", s.at.Job(c.ID(0)).CreatedAt >= least, ", the heartbeat ", s.document().BrokerHeartbeat >= least), true
	case "linearize":
		ctx, cancel := context.WithTimeout(s.t.Context(), c.Duration("within", 10*time.Second))
		defer cancel()
		return fmt.Sprint(s.node(c.ID(0)).Linearize(ctx)), true
	case "try":
		r, _, err := s.at.Propose(s.t.Context(), script.Tokens(s.token).Mutation(c.Rest()))
		var rival *leader.RivalError
		switch {
		case errors.As(err, &rival):
			return "refused: a rival may lead", true
		case errors.Is(err, ErrFlushLag):
			return "refused: the bucket lags", true
		}
		return fmt.Sprint(r.Code, ", ", err), true
	case "refusing":
		var rival *leader.RivalError
		err, st := s.at.Refusal(), s.at.Status()
		return fmt.Sprintf("refusing %v, because of a rival %v, the status says so %v, the flush fails %v", err != nil, errors.As(err, &rival), st.Refusing != "", st.FlushError != ""), true
	case "events":
		n := 0
		events, _ := s.at.Events().Since(s.since, 10_000)
		for _, e := range events {
			if e.JobID == c.ID(0) {
				n++
			}
		}
		return fmt.Sprint(n, " events since the mark"), true
	case "meanwhile":
		return s.eventsMeanwhile(), true
	case "open":
		cfg := s.node(c.ID(0)).cfg
		if name := c.Text("name"); name != "" {
			cfg.Name, cfg.Peers = name, nil
		}
		n, err := Open(cfg)
		if err != nil {
			return err.Error(), true
		}
		_ = n.Close()
		return "it starts", true
	}
	return "", false
}

// eventsMeanwhile counts the events while writes were refused, except for the registration of a broker, which comes with
// the acceptance of writes.
func (s *scene) eventsMeanwhile() string {
	n, refusing := 0, false
	events, _ := s.at.Events().Since(notify.EventID{}, 10_000)
	for _, e := range events {
		if refusing && e.Kind != fsm.BrokerRegistered && e.Kind != fsm.WritesAccepted {
			n++
		}
		refusing = e.Kind == fsm.WritesRefused || refusing && e.Kind != fsm.WritesAccepted
	}
	return fmt.Sprint(n, " events while writes were refused")
}

// report prints what is in the bucket, and what the cluster as a whole is.
func (s *scene) report(c script.Command) (out string, ok bool) {
	switch c.Name {
	case "mark":
		s.servers = serverIDs(s.at.raft.GetConfiguration().Configuration())
		s.marked, s.since = s.document().Header, s.at.Events().Last()
		return "", true
	case "document":
		return s.describeDocument(), true
	case "fence":
		f := s.document().Fence()
		return fmt.Sprintf("outage %v, %d members, at this address %v", f.Outage, len(f.Members), f.Members[0].Address == s.at.cfg.HTTPAdvertise), true
	case "objects":
		return fmt.Sprint(len(s.objects()), " objects"), true
	case "under":
		return fmt.Sprint(slices.ContainsFunc(c.IDs, func(prefix string) bool { return len(s.keys(prefix)) > 0 })), true
	case "copies":
		return fmt.Sprint(s.copies(), " copies"), true
	case "known":
		known := s.at.Status().DocumentCopies
		return fmt.Sprintf("%d copies, the last under conflicts/ %v", known.Count, strings.HasPrefix(known.Last, "conflicts/")), true
	case "kept":
		return strings.Join(s.keptJobs(), ", "), true
	case "records":
		var all []string
		for _, key := range s.keys("conflicts/") {
			if strings.Contains(key, "-records-") {
				all = append(all, string(s.objects()[key]))
			}
		}
		return strings.Join(all, "\n"), true
	case "restored":
		m, err := archive.Machine(s.t.Context(), s.bucket, s.document())
		if err != nil {
			return err.Error(), true
		}
		return s.counts(m.Counts()), true
	case "same":
		return fmt.Sprint(s.allTheSame()), true
	case "servers":
		ids := serverIDs(s.at.raft.GetConfiguration().Configuration())
		return fmt.Sprintf("%d, as marked %v", len(ids), slices.Equal(ids, s.servers)), true
	case "addresses":
		return fmt.Sprint("right ", s.addressesAreRight()), true
	case "voter":
		return fmt.Sprint(membership.Voter(s.at.raft.GetConfiguration().Configuration(), s.node(c.ID(0)).id)), true
	case "hits":
		return fmt.Sprint(min(s.rules[c.ID(0)].Hits(), 3), " hits or more"), true
	}
	return "", false
}

func (s *scene) counts(of fsm.Counts) string {
	var all []string
	for status := fsm.Scheduled; status <= fsm.Blocked; status++ {
		if n := of.Of(status); n > 0 {
			all = append(all, fmt.Sprint(n, " ", status))
		}
	}
	return strings.Join(all, "; ")
}

// describeDocument prints the document, and how its header differs from the marked one.
func (s *scene) describeDocument() string {
	if _, err := s.bucket.Get(s.t.Context(), DocumentKey); err != nil {
		return "none"
	}
	d := s.document()
	h := d.Header
	if h == nil {
		return "without a header"
	}
	all := []string{s.counts(h.Counts)}
	note := func(what string, is bool) {
		if is {
			all = append(all, what)
		}
	}
	note("bare", !d.Viewed)
	note("overtaken", d.Overtaken)
	if m := s.marked; m != nil {
		note("of a later epoch", h.Epoch > m.Epoch)
		note("of a later LSN", h.LSN().Compare(m.LSN()) > 0)
		note("of another lineage", h.Lineage != m.Lineage)
	}
	note("up to date", s.at != nil && h.LSN() == s.at.View().LSN())
	note("with a log", d.Archive.Checkpoint.Key != "" && len(d.Archive.Log) > 0)
	return strings.Join(all, "; ")
}

// allTheSame reports whether all nodes that run have the state of the document.
func (s *scene) allTheSame() bool {
	m, err := archive.Machine(s.t.Context(), s.bucket, s.document())
	if err != nil {
		s.t.Fatal(err)
	}
	for name, n := range s.members {
		if n.Name() == name && n.ctx.Err() == nil && n.View().Hash() != m.View().Hash() {
			return false
		}
	}
	return true
}

// newcomer starts a node with an empty directory at a new address. others is the --peers
// of the other nodes, which may lack its name.
func (l *lab) newcomer(name string, others []PeerAddr, log *notes) *member {
	l.t.Helper()
	listener := l.listen()
	peers := slices.Clone(others)
	i := slices.IndexFunc(peers, func(p PeerAddr) bool { return p.Name == name })
	if i < 0 {
		i = len(peers)
		peers = append(peers, PeerAddr{Name: name})
	}
	peers[i].HTTP = listener.Addr().String()
	l.t.Cleanup(func() {
		if l.t.Failed() {
			l.t.Logf("log of the new %s:\n%s", name, log.all())
		}
	})
	return l.open(peers, i, listener, log.log)
}

func serverIDs(c raft.Configuration) (ids []raft.ServerID) {
	for _, s := range c.Servers {
		ids = append(ids, s.ID)
	}
	return ids
}

// announcements returns the kinds of all announcements that a node knows of, sorted.
func announcements(n *member) (kinds []fsm.EventKind) {
	events, _ := n.Events().Since(notify.EventID{}, 10_000)
	for _, e := range events {
		if e.Kind >= fsm.BucketAway && e.Kind <= fsm.BucketHealed {
			kinds = append(kinds, e.Kind)
		}
	}
	slices.Sort(kinds)
	return kinds
}

// replaceInLog replaces a text in the files of a raft log. It reports whether there was any.
func replaceInLog(t *testing.T, dir, before, after string) (replaced bool) {
	t.Helper()
	segments, err := filepath.Glob(filepath.Join(dir, "raft", "log", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range segments {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(data, []byte(before)) {
			continue
		}
		replaced = true
		if err := os.WriteFile(path, bytes.ReplaceAll(data, []byte(before), []byte(after)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return replaced
}

// move starts nodes again, with their disks, at new addresses of both planes. The other nodes are
// restarted with the new --peers.
func (l *lab) move(all []*member, moves func(*member) bool) []*member {
	l.t.Helper()
	peers := slices.Clone(all[0].cfg.Peers)
	listeners := make([]net.Listener, len(all))
	for _, m := range all {
		m.stop()
	}
	for i, m := range all {
		var err error
		if moves(m) {
			listeners[i] = l.listen()
		} else if listeners[i], err = net.Listen("tcp", m.cfg.HTTPAdvertise); err != nil {
			l.t.Fatal(err)
		}
		peers[i].HTTP = listeners[i].Addr().String()
	}
	next := make([]*member, len(all))
	for i, m := range all {
		next[i] = l.open(peers, i, listeners[i], func(c *Config) {
			c.DataDir = m.cfg.DataDir
			if !moves(m) {
				c.RaftAddr = string(m.net.LocalAddr())
			}
		})
	}
	return next
}

// addressesAreRight reports whether raft's configuration has every node at its own address, on every node.
func (s *scene) addressesAreRight() bool {
	for _, m := range s.running(nil) {
		for _, server := range m.raft.GetConfiguration().Configuration().Servers {
			for _, o := range s.running(nil) {
				if server.ID == o.id && server.Address != o.net.LocalAddr() {
					return false
				}
			}
		}
	}
	return true
}

// copyOf copies the data directory of a member that is stopped or idle.
func (l *lab) copyOf(dir string) string {
	l.t.Helper()
	to := filepath.Join(l.t.TempDir(), "copy")
	if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
		l.t.Fatal(err)
	}
	return to
}

// remove removes a server by the leader of the moment, which changes on a busy machine. It returns
// when a leader among members has a configuration without the server.
func (l *lab) remove(id raft.ServerID, members ...*member) {
	l.t.Helper()
	l.eventually("the removal of "+string(id), func() bool {
		for _, m := range members {
			if !membership.Voter(m.raft.GetConfiguration().Configuration(), id) && m.raft.VerifyLeader().Error() == nil {
				return true
			}
		}
		for _, m := range members {
			if m.raft.State() == raft.Leader && m.raft.RemoveServer(id, 0, 10*time.Second).Error() == nil {
				return true
			}
		}
		return false
	})
}

// flushed waits until the bucket has an LSN.
func (l *lab) flushed(n *member, lsn fsm.LSN) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(l.t.Context(), 15*time.Second)
	defer cancel()
	if err := n.WaitFlushed(ctx, lsn); err != nil {
		l.t.Fatal(err)
	}
}

// announcedAbout returns the kinds of the announcements whose text has a key.
func (l *lab) announcedAbout(n *member, key string) (kinds []fsm.EventKind) {
	events, _ := n.Events().Since(notify.EventID{}, 10_000)
	for _, e := range events {
		if e.Kind >= fsm.BucketAway && strings.Contains(e.Message, key) {
			kinds = append(kinds, e.Kind)
		}
	}
	return kinds
}

// spoil changes the state of one node without a log entry.
func (m *member) spoil(id string) {
	r := m.replica
	r.mu.Lock()
	defer r.mu.Unlock()
	meta := r.machine.Meta()
	r.machine.Apply(meta.LSN().Index, meta.LSN().Term-meta.TermBase, &fsmpb.Batch{NowMs: meta.NowMs, Mutations: []*fsmpb.Mutation{
		{Op: &fsmpb.Mutation_Enqueue{Enqueue: &fsmpb.Enqueue{Jobs: []*fsmpb.NewJob{{Id: id, Type: "t"}}}}},
	}})
	r.view = nil
}

// removeLog removes the raft log of a data directory.
func removeLog(dir string) error { return os.RemoveAll(filepath.Join(dir, "raft")) }

// emptyLog truncates the files of the raft log of a data directory.
func emptyLog(dir string) error {
	return filepath.WalkDir(filepath.Join(dir, "raft"), func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			return os.Truncate(path, 0)
		}
		return err
	})
}

func (l *lab) witnessOf(m *member) raftlog.Witnessed {
	l.t.Helper()
	w, err := raftlog.ReadWitness(m.cfg.DataDir)
	if err != nil {
		l.t.Fatal(err)
	}
	return w
}
