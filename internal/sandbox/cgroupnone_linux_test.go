package sandbox

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Where nothing can be started in a control group the level works without.
func TestNothingStartsInAGroup(t *testing.T) {
	cfg, err := Config{Level: Process, Limits: small, UIDs: UIDRange{First: 1_910_000_000, Count: 64}}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	b := &Box{cfg: cfg}
	if err := b.setUp(); err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if b.groups == nil {
		t.Skip(b.Describe())
	}
	if err := removeGroup(b.groups.parent); err != nil {
		t.Fatal(err)
	}
	b.groups.memory, b.groups.pids = false, false // a directory takes no limits
	b.groups.parent = filepath.Join(t.TempDir(), "no-group")
	if err := os.Mkdir(b.groups.parent, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := b.prove(t.Context()); err != nil || b.groups != nil {
		t.Errorf("%v, groups %v", err, b.groups)
	}
	if told := b.Describe(); !strings.Contains(told, "no control groups (start the command: ") {
		t.Errorf("it says %s", told)
	}
}

func TestLimitOfProcessesHasAnEnd(t *testing.T) {
	if _, err := New(t.Context(), Config{Level: Process, Limits: Limits{Processes: maxProcesses + 1}}); err == nil ||
		!strings.Contains(err.Error(), "must be at most 2097152") {
		t.Error(err)
	}
}
