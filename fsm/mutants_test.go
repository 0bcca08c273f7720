package fsm_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"text/tabwriter"
	"time"
)

// The tests are only worth what they catch. Each mutant below is a bug that
// somebody could have made; TestMutants builds the machine with it, on a
// temporary copy of the file, and expects the tests of behaviour to fail:
//
//	go test ./fsm -run TestMutants -mutants
//
// It takes a compile and some seconds for each. -run TestMutants/turn takes
// those with "turn" in the name. A change of the machine that
// moves a snippet away makes TestMutantsFit fail: then mend the table.

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
		if _, err := m.mutated(); err != nil {
			t.Error(err)
		}
	}
}

// mutated is the file with the bug in it.
func (m mutant) mutated() ([]byte, error) {
	data, err := os.ReadFile(m.file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", m.name, err)
	}
	if n := strings.Count(string(data), m.old); n != 1 || m.old == m.bug {
		return nil, fmt.Errorf("%s: %d times in %s, want once:\n%s", m.name, n, m.file, m.old)
	}
	return []byte(strings.Replace(string(data), m.old, m.bug, 1)), nil
}

func TestMutants(t *testing.T) {
	if !*withMutants {
		t.Skip("takes minutes; run it with -mutants")
	}
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 8, 2, ' ', 0)
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			begin := time.Now()
			by, err := m.caught(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
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

// caught is the test that fails with the bug, or "".
func (m mutant) caught(dir string) (string, error) {
	program, err := m.build(dir)
	if err != nil {
		return "", err
	}
	for _, test := range []string{"TestTranscripts", "TestMachineAgreesWithModel", "TestReplicasStayEqual"} {
		cmd := exec.Command(program, "-test.run", "^"+test+"$", "-test.timeout", "10m",
			"-rapid.checks=4000", "-rapid.nofailfile", "-rapid.shrinktime=0s")
		out, err := cmd.CombinedOutput()
		if err != nil {
			if !strings.Contains(string(out), "--- FAIL: "+test) && !strings.Contains(string(out), "panic:") {
				return "", fmt.Errorf("%s: %w:\n%s", m.name, err, out)
			}
			return strings.TrimPrefix(test, "Test"), nil
		}
	}
	return "", nil
}

// build makes the test program with the bug.
func (m mutant) build(dir string) (string, error) {
	data, err := m.mutated()
	if err != nil {
		return "", err
	}
	original, err := filepath.Abs(m.file)
	if err != nil {
		return "", err
	}
	copied, overlay, program := filepath.Join(dir, m.file), filepath.Join(dir, "overlay.json"), filepath.Join(dir, "fsm.test")
	list, err := json.Marshal(map[string]map[string]string{"Replace": {original: copied}})
	if err != nil {
		return "", err
	}
	for path, content := range map[string][]byte{copied: data, overlay: list} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			return "", err
		}
	}
	out, err := exec.Command("go", "test", "-c", "-vet=off", "-overlay", overlay, "-o", program, ".").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s does not build: %w:\n%s", m.name, err, out)
	}
	return program, nil
}
