package mutants_test

import (
	"context"
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

// withMutants lets TestMutants build the queue with each defect and expect the check that the
// table names for the defect to fail:
//
//	make mutants
//
// -run TestMutants/fence selects the defects of the fence, and -run 'TestMutants/[A-Z]' those
// that reopen a finding of a review.
var withMutants = flag.Bool("mutants", false, "build the queue with each deliberate defect, and see it caught")

const root = "../.."

// TestMutantsFit checks that the snippets of the table occur in the code.
func TestMutantsFit(t *testing.T) {
	names := map[string]bool{}
	for _, d := range allDefects {
		if names[d.Name] {
			t.Errorf("%s is there twice", d.Name)
		}
		names[d.Name] = true
		if _, err := d.Mutated(root); err != nil {
			t.Error(err)
		}
		if err := d.by.exists(); err != nil {
			t.Errorf("%s: %v", d.Name, err)
		}
	}
	if len(allDefects) < 70 {
		t.Errorf("there are only %d defects", len(allDefects))
	}
}

// exists returns an error if there is no such test.
func (c check) exists() error {
	files, err := filepath.Glob(filepath.Join(root, c.pkg, "*_test.go"))
	if err != nil {
		return err
	}
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			return err
		}
		if strings.Contains(string(data), "\nfunc "+c.test+"(") {
			return nil
		}
	}
	return fmt.Errorf("%s has no test %s", c.pkg, c.test)
}

// caughtWithin bounds one check. A defect that makes it hang is caught by that, too.
const caughtWithin = 5 * time.Minute

func TestMutants(t *testing.T) {
	if !*withMutants {
		t.Skip("takes an hour; run it with -mutants")
	}
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 8, 2, ' ', 0)
	sane := map[string]bool{} // checks that pass without a defect
	caught := 0
	for _, d := range allDefects {
		t.Run(d.promise+"/"+d.Name, func(t *testing.T) {
			if key := d.by.String(); !sane[key] {
				if out, failed := d.by.run(t, ""); failed {
					t.Fatalf("%s fails without any defect:\n%s", key, tail(out))
				}
				sane[key] = true
			}
			list, err := d.Overlay(root, t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			begin, by := time.Now(), d.by.String()
			out, failed := d.by.run(t, list)
			if failed {
				caught++
			} else {
				by = "NOT by " + by
				t.Errorf("%s has not noticed:\n%s", d.by, tail(out))
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%.1f s\n", d.promise, d.Name, by, time.Since(begin).Seconds())
		})
	}
	_ = w.Flush()
	t.Logf("%d of %d defects were caught\n%s", caught, len(allDefects), table.String())
}

func (c check) String() string { return c.pkg + " " + c.test }

// run builds the check with an overlay ("" is none), and the program if the check needs it, and
// reports whether the check fails.
func (c check) run(t *testing.T, overlay string) (out string, failed bool) {
	t.Helper()
	dir := t.TempDir()
	flags := []string{"-buildvcs=false"}
	if overlay != "" {
		abs, err := filepath.Abs(overlay)
		if err != nil {
			t.Fatal(err)
		}
		flags = append(flags, "-overlay", abs)
	}
	env := append(os.Environ(), c.env...)
	if c.real {
		binary := filepath.Join(dir, "osqueue")
		goTool(t, append(append([]string{"build"}, flags...), "-o", binary, "./cmd/osqueue")...)
		env = append(env, "OSQUEUE_BIN="+binary)
	}
	program := filepath.Join(dir, "check.test")
	goTool(t, append(append([]string{"test", "-c", "-vet=off"}, flags...), "-o", program, "./"+c.pkg)...)

	ctx, cancel := context.WithTimeout(t.Context(), caughtWithin)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "-test.run", "^"+c.test+"$", "-test.v", "-test.timeout", caughtWithin.String())
	cmd.Dir, cmd.Env = filepath.Join(root, c.pkg), env
	data, err := cmd.CombinedOutput()
	out = string(data)
	if err == nil && !strings.Contains(out, "--- PASS: "+c.test) {
		t.Fatalf("%s has not run:\n%s", c, tail(out))
	}
	return out, err != nil
}

// goTool runs the go command at the top of the tree. A defect must compile.
func goTool(t *testing.T, args ...string) {
	t.Helper()
	cmd := exec.Command("go", args...)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func tail(out string) string {
	lines := strings.Split(strings.TrimSpace(out), "\n")
	return strings.Join(lines[max(0, len(lines)-30):], "\n")
}
