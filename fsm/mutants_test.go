package fsm_test

import (
	"flag"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	defects "osqueue/tests/mutants"
)

// The mutants measure the tests. Each mutant is a plausible bug. TestMutants builds the
// machine with it, on a temporary copy of the file, and expects the tests of behaviour to
// fail:
//
//	go test ./fsm -run TestMutants -mutants
//
// Each one takes a compilation and some seconds. -run TestMutants/turn selects the mutants
// with "turn" in the name. If a change of the machine alters a quoted snippet,
// TestMutantsFit fails: then correct the table.

var withMutants = flag.Bool("mutants", false, "build the machine with each seeded bug, and see it caught")

type mutant struct {
	name    string
	feature string
	file    string
	old     string // occurs once in the file
	bug     string // stands in its place
}

func TestMutantsFit(t *testing.T) {
	names := map[string]bool{}
	for _, m := range mutants {
		if names[m.name] {
			t.Errorf("%s is there twice", m.name)
		}
		names[m.name] = true
		if _, err := m.seeded().Mutated(".."); err != nil {
			t.Error(err)
		}
	}
}

// seeded is the bug as a defect of the whole tree.
func (m mutant) seeded() defects.Mutant {
	return defects.Mutant{Name: m.name, File: "fsm/" + m.file, Old: m.old, Bug: m.bug}
}

func TestMutants(t *testing.T) {
	if !*withMutants {
		t.Skip("takes minutes; run it with -mutants")
	}
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 8, 2, ' ', 0)
	t.Run("sane", func(t *testing.T) {
		if by := (mutant{file: "machine.go"}).caught(t, 200); by != "" {
			t.Fatalf("the machine without a bug fails %s", by)
		}
	})
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			begin := time.Now()
			by := m.caught(t, 4000)
			if by == "" {
				by = "nothing"
				t.Errorf("%s: no test has noticed", m.name)
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%.1f s\n", m.feature, m.name, by, time.Since(begin).Seconds())
		})
	}
	w.Flush()
	t.Log("\n" + table.String())
}

// caught names the tests that fail with the bug: of the random logs and the
// transcripts all, of the others the first, if it takes them.
func (m mutant) caught(t *testing.T, checks int) string {
	program := m.build(t, t.TempDir())
	var by []string
	tests := []string{"TestMachineAgreesWithModel", "TestTranscripts", "TestReplicasStayEqual", "TestNoClaimSleepsOn"}
	if m.feature == "budgets" { // that short logs do not exhaust elsewhere
		tests = []string{"TestReplicasWithTinyBudgetsStayEqual"}
	}
	for i, test := range tests {
		if i > 1 && len(by) > 0 {
			break
		}
		cmd := exec.Command(program, "-test.run", "^"+test+"$", "-test.timeout", "10m",
			fmt.Sprint("-rapid.checks=", checks), "-rapid.nofailfile", "-rapid.shrinktime=0s")
		out, err := cmd.CombinedOutput()
		if err == nil {
			continue
		}
		if !strings.Contains(string(out), "--- FAIL: "+test) && !strings.Contains(string(out), "panic:") {
			t.Fatalf("%s: %v:\n%s", m.name, err, out)
		}
		by = append(by, strings.TrimPrefix(test, "Test"))
	}
	return strings.Join(by, ", ")
}

// build makes the test program with the bug; without one it is as it is.
func (m mutant) build(t *testing.T, dir string) string {
	program := filepath.Join(dir, "fsm.test")
	args := []string{"test", "-c", "-vet=off", "-o", program}
	if m.old != "" {
		list, err := m.seeded().Overlay("..", dir)
		if err != nil {
			t.Fatal(err)
		}
		args = append(args, "-overlay", list)
	}
	if out, err := exec.Command("go", append(args, ".")...).CombinedOutput(); err != nil {
		t.Fatalf("%s does not build: %v:\n%s", m.name, err, out)
	}
	return program
}
