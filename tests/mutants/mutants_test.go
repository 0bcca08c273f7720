package mutants

import (
	"cmp"
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
// -run TestMutants/fence selects the defects of the fence, -run TestMutants/turn those of the
// machine's turns, and -run 'TestMutants/[A-Z]' those that reopen a finding of a review.
var withMutants = flag.Bool("mutants", false, "build the queue with each deliberate defect, and see it caught")

const root = "../.."

func table(t *testing.T) []Mutant {
	t.Helper()
	all, err := Read("testdata/mutants.txt")
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestMutantsFit checks that the snippets of the table occur in the code.
func TestMutantsFit(t *testing.T) {
	names := map[string]bool{}
	all := table(t)
	for i := range all {
		d := &all[i]
		if names[d.Name] {
			t.Errorf("%s is there twice", d.Name)
		}
		names[d.Name] = true
		if _, err := d.Mutated(root); err != nil {
			t.Error(err)
		}
		if err := d.By.exists(); err != nil {
			t.Errorf("%s: %v", d.Name, err)
		}
	}
	if len(all) < 250 {
		t.Errorf("there are only %d defects", len(all))
	}
}

// exists returns an error if a test of the check is missing.
func (c Check) exists() error {
	files, err := filepath.Glob(filepath.Join(root, c.Pkg, "*_test.go"))
	if err != nil {
		return err
	}
	var text strings.Builder
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			return err
		}
		text.Write(data)
	}
	for _, test := range c.Tests {
		if !strings.Contains(text.String(), "\nfunc "+test+"(") {
			return fmt.Errorf("%s has no test %s", c.Pkg, test)
		}
	}
	return nil
}

// caughtWithin bounds one check without a bound of its own. A defect that makes it hang is caught by that, too.
const caughtWithin = 5 * time.Minute

func TestMutants(t *testing.T) {
	if !*withMutants {
		t.Skip("takes an hour; run it with -mutants")
	}
	var results strings.Builder
	w := tabwriter.NewWriter(&results, 0, 8, 2, ' ', 0)
	sane := map[string]bool{} // checks that pass without a defect
	caught := 0
	all := table(t)
	for i := range all {
		d := &all[i]
		t.Run(d.Promise+"/"+d.Name, func(t *testing.T) {
			if key := d.By.String(); !sane[key] {
				if out, failed := d.By.run(t, ""); failed {
					t.Fatalf("%s fails without any defect:\n%s", key, tail(out))
				}
				sane[key] = true
			}
			list, err := d.Overlay(root, t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			begin, by := time.Now(), d.By.String()
			out, failed := d.By.run(t, list)
			if failed {
				caught++
				by = d.By.Pkg + " " + strings.Join(failures(out), ", ")
			} else {
				by = "NOT by " + by
				t.Errorf("%s has not noticed:\n%s", d.By, tail(out))
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%.1f s\n", d.Promise, d.Name, by, time.Since(begin).Seconds())
		})
	}
	_ = w.Flush()
	t.Logf("%d of %d defects were caught\n%s", caught, len(all), results.String())
}

func (c Check) String() string { return c.Pkg + " " + strings.Join(c.Tests, ", ") }

// failures returns the names of the tests that failed.
func failures(out string) (names []string) {
	for line := range strings.Lines(out) {
		if name, ok := strings.CutPrefix(line, "--- FAIL: "); ok {
			name, _, _ = strings.Cut(name, " ")
			names = append(names, name)
		}
	}
	if names == nil {
		return []string{"a panic or the time limit"}
	}
	return names
}

// run builds the check with an overlay ("" is none), and reports whether the check fails.
func (c Check) run(t *testing.T, overlay string) (out string, failed bool) {
	t.Helper()
	dir := t.TempDir()
	flags := []string{"-buildvcs=false", "-ldflags=-s -w"} // without symbols, the linker needs half of the time
	if overlay != "" {
		abs, err := filepath.Abs(overlay)
		if err != nil {
			t.Fatal(err)
		}
		flags = append(flags, "-overlay", abs)
	}
	program := filepath.Join(dir, "check.test")
	goTool(t, append(append([]string{"test", "-c", "-vet=off"}, flags...), "-o", program, "./"+c.Pkg)...)

	within := cmp.Or(c.Within, caughtWithin)
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	args := []string{
		"-test.run", "^(" + strings.Join(c.Tests, "|") + ")$", "-test.v", "-test.failfast", "-test.timeout", within.String(),
	}
	cmd := exec.CommandContext(ctx, program, append(args, c.Flags...)...)
	cmd.Dir = filepath.Join(root, c.Pkg)
	data, err := cmd.CombinedOutput()
	out = string(data)
	for _, test := range c.Tests {
		if err == nil && !strings.Contains(out, "--- PASS: "+test) {
			t.Fatalf("%s of %s has not run:\n%s", test, c, tail(out))
		}
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
