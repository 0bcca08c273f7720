package recorded

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/storage/document"
	"osqueue/tests/model"
)

var record = flag.Int("record", 0, "record the log of the release of this feature level first")

// state is the checksum of a state after the entries up to an index of the raft log.
type state struct {
	Index uint64 `json:"index"`
	Sum   string `json:"sha256"`
}

// TestReplay replays the recorded logs, and compares the states with those of the releases.
func TestReplay(t *testing.T) {
	if *record != 0 {
		recordLevel(t, *record)
	}
	for level := fsm.BaseLevel; level < fsm.MaxLevel; level++ {
		t.Run(fmt.Sprintf("level %d", level), func(t *testing.T) {
			dir := levelDir(level)
			if _, err := os.Stat(dir); err != nil {
				t.Fatalf("record the last release of level %d (doc.go says how): %v", level, err)
			}
			replay(t, dir, level)
		})
	}
}

// levelDir is where the files of a level are.
func levelDir(level int) string { return fmt.Sprintf("testdata/level-%d", level) }

func replay(t *testing.T, dir string, level int) {
	var states []state
	if err := json.Unmarshal(read(t, dir, "states.json"), &states); err != nil || len(states) < 2 {
		t.Fatalf("%d states: %v", len(states), err)
	}
	m, kinds := fsm.New(), map[string]int{}
	var sums fsm.SumCheck
	agreed := 0
	for _, e := range entries(t, dir) {
		for len(states) > 0 && states[0].Index < e.Index {
			compare(t, m, states[0])
			states = states[1:]
		}
		b, err := fsm.DecodeEntry(e.Data)
		if err != nil {
			t.Fatalf("entry %d: %v", e.Index, err)
		}
		countKinds(b.Mutations, kinds)
		m.Apply(e.Index, e.Term, b)
		if err := sums.Applied(m, b); err != nil {
			t.Errorf("entry %d: %v", e.Index, err)
		}
		fsm.AgreedSums(b, func(fsm.StateSum, []string) { agreed++ })
	}
	for _, s := range states {
		compare(t, m, s)
	}
	compareDocument(t, m, read(t, dir, "queue.json"))
	checkKinds(t, level, kinds, agreed)
}

func compare(t *testing.T, m *fsm.Machine, s state) {
	t.Helper()
	if sum := m.View().Hash(); hex.EncodeToString(sum[:]) != s.Sum {
		t.Errorf("the state at %d (LSN %s) has the checksum %x, and %s when it was recorded", s.Index, m.Meta().LSN, sum, s.Sum)
	}
}

// compareDocument compares the last state with the document that has it.
func compareDocument(t *testing.T, m *fsm.Machine, data []byte) {
	t.Helper()
	doc, err := document.Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	stored, err := doc.Machine()
	if err != nil {
		t.Fatal(err)
	}
	if stored.View().Hash() != m.View().Hash() {
		text := func(m *fsm.Machine) []byte {
			return document.Encode(document.Inline(m.View()), *doc.Header, doc.BrokerAddress(), doc.BrokerHeartbeat)
		}
		t.Errorf("the log leads to\n%s\nand the document has\n%s", text(m), text(stored))
	}
}

// countKinds counts the mutations by kind, as in "enqueue".
func countKinds(list []*fsmpb.Mutation, kinds map[string]int) {
	for _, m := range list {
		if g := m.GetGroup(); g != nil {
			countKinds(g.Mutations, kinds)
		}
		kinds[strings.TrimPrefix(fmt.Sprintf("%T", m.Op), "*fsmpb.Mutation_")]++
	}
}

// checkKinds checks that the log has every kind of mutation that the script leads to.
func checkKinds(t *testing.T, level int, kinds map[string]int, agreed int) {
	t.Helper()
	want := strings.Fields(`Enqueue Claim Heartbeat Complete Fail Release RegisterWorker WorkerDead RegisterBroker Change
		SetQueue PutCron PauseCron DeleteCron FireCron TriggerCron ForceComplete SetExtra`)
	if level > fsm.BaseLevel {
		want = append(want, "RaiseLevel")
	}
	if level >= fsm.Level8 {
		want = append(want, "CheckState", "StateChecked")
		if agreed == 0 {
			t.Error("the log has no checksum of a state")
		}
	}
	if level >= fsm.Level11 {
		want = append(want, "CreateToken", "RevokeToken", "TouchTokens", "PutHook", "DeleteHook", "TestHook", "ReportHook", "SetAlert")
	}
	for _, kind := range want {
		if kinds[kind] == 0 {
			t.Errorf("the log has no %s: %v", kind, kinds)
		}
	}
}

func read(t *testing.T, dir, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func entries(t *testing.T, dir string) []model.Entry {
	t.Helper()
	var list []model.Entry
	lines := bufio.NewScanner(bytes.NewReader(read(t, dir, "log.jsonl")))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e model.Entry
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			t.Fatal(err)
		}
		list = append(list, e)
	}
	if lines.Err() != nil || len(list) < 50 {
		t.Fatalf("%d entries: %v", len(list), lines.Err())
	}
	return list
}

// write stores what a node recorded.
func write(t *testing.T, dir string, log []model.Entry, states []state, doc []byte) {
	t.Helper()
	var lines bytes.Buffer
	for _, e := range log {
		line, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		lines.Write(append(line, '\n'))
	}
	slices.SortFunc(states, func(a, b state) int { return cmp.Compare(a.Index, b.Index) })
	sums, err := json.MarshalIndent(states, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{"log.jsonl": lines.Bytes(), "states.json": append(sums, '\n'), "queue.json": doc} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// snapshots returns the checksums of the states in a node's snapshots. A snapshot ends with
// the checksum that the node computed.
func snapshots(t *testing.T, data string) (list []state) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(data, "snapshots", "*", "state.bin"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no snapshot: %v", err)
	}
	for _, path := range paths {
		var term, index uint64
		if _, err := fmt.Sscanf(filepath.Base(filepath.Dir(path)), "%d-%d-", &term, &index); err != nil {
			continue // not finished
		}
		file, err := os.ReadFile(path)
		if err != nil || len(file) < sha256.Size {
			t.Fatalf("%s has %d bytes: %v", path, len(file), err)
		}
		if want := sha256.Sum256(file[:len(file)-sha256.Size]); !bytes.HasSuffix(file, want[:]) {
			t.Fatalf("%s does not end with its checksum", path)
		}
		list = append(list, state{index, hex.EncodeToString(file[len(file)-sha256.Size:])})
	}
	return list
}
