package clients

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"osqueue/tests/cluster"
)

// lines of a file of the source tree.
func lines(t *testing.T, path string) []string {
	t.Helper()
	data, err := os.ReadFile(fromRoot(path))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
}

// The clients are small enough to be copied, and to be read before that.
func TestSize(t *testing.T) {
	t.Parallel()
	for path, most := range map[string]int{
		"clients/python/osqueue.py": 740, "clients/python/README.md": 36,
		"clients/js/osqueue.mjs": 730, "clients/js/README.md": 36, "clients/js/osqueue.d.mts": 300,
	} {
		all := lines(t, path)
		if len(all) > most {
			t.Errorf("%s has %d lines, at most %d are allowed", path, len(all), most)
		}
		for i, line := range all {
			if len([]rune(line)) > 120 {
				t.Errorf("%s:%d has %d characters, at most 120 are allowed", path, i+1, len([]rune(line)))
			}
		}
	}
}

// The clients import nothing that does not come with the interpreter.
func TestNoDependencies(t *testing.T) {
	t.Parallel()
	for _, line := range lines(t, "clients/js/osqueue.mjs") {
		if strings.HasPrefix(line, "import ") && !strings.Contains(line, `from "node:`) {
			t.Errorf("not a module of node's own: %s", line)
		}
	}
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skipf("the python client is not looked at: %v", err)
	}
	// -I: without installed packages, -S: without site packages.
	run(t, t.TempDir(), nil, "python3", "-I", "-S", "-c", `
import ast, sys
ast.parse(open(sys.argv[1]).read(), feature_version=(3, 8))
sys.argv, name = sys.argv[:1], sys.argv[1]
sys.dont_write_bytecode = True
import importlib.util
spec = importlib.util.spec_from_file_location("osqueue", name)
spec.loader.exec_module(importlib.util.module_from_spec(spec))
`, fromRoot("clients/python/osqueue.py"))
}

// The types declare exactly the members of the classes.
func TestTypes(t *testing.T) {
	t.Parallel()
	l := languages[1]
	l.need(t)
	types := strings.Join(lines(t, "clients/js/osqueue.d.mts"), "\n")
	out := run(t, l.desk(t), nil, "node", "--input-type=module", "-e", `
import * as all from "./osqueue.mjs";
for (const [name, c] of Object.entries(all))
  console.log([name, ...Object.getOwnPropertyNames(c.prototype)].join(" "));`)
	classes := 0
	for line := range strings.Lines(out) {
		words := strings.Fields(line)
		body := regexp.MustCompile(`(?ms)^export class ` + words[0] + `\b.*?^}`).FindString(types)
		var declared []string
		for _, m := range regexp.MustCompile(`(?m)^  (\w+)(?:<T>)?\(`).FindAllStringSubmatch(body, -1) {
			declared = append(declared, m[1])
		}
		slices.Sort(declared)
		slices.Sort(words[1:])
		if got := slices.Compact(declared); !slices.Equal(got, words[1:]) {
			t.Errorf("class %s has %v, declared are %v", words[0], words[1:], got)
		}
		classes++
	}
	if n := strings.Count(types, "export class "); n != classes || n < 5 {
		t.Errorf("%d classes are declared, %d exported", n, classes)
	}
}

// programs returns the indented pieces of a page that begin with an import, in
// their order.
func programs(t *testing.T, page string) []string {
	t.Helper()
	var all []string
	var one strings.Builder
	for _, line := range append(lines(t, page), "end") {
		code, indented := strings.CutPrefix(line, "    ")
		switch {
		case indented || (line == "" && one.Len() > 0):
			one.WriteString(code + "\n")
		case one.Len() > 0:
			if text := one.String(); strings.HasPrefix(text, "import ") || strings.HasPrefix(text, "from ") {
				all = append(all, text)
			}
			one.Reset()
		}
	}
	return all
}

// The programs of the READMEs work as they are: the first submits a job and
// prints its result, the second is its worker.
func TestReadmes(t *testing.T) {
	eachLanguage(t, func(t *testing.T, l language) {
		c := l.share(t, 3)
		dir := l.desk(t)
		all := programs(t, filepath.Join(filepath.Dir(l.client), "README.md"))
		if len(all) != 2 {
			t.Fatalf("%d programs, want 2: %q", len(all), all)
		}
		nodes := regexp.MustCompile(`\[.*10\.0\.0\..*\]`)
		if !nodes.MatchString(all[0]) {
			t.Fatalf("the first program names no nodes:\n%s", all[0])
		}
		client := nodes.ReplaceAllString(all[0], `["`+strings.Join(c.Servers(), `", "`)+`"]`)
		for name, text := range map[string]string{"submits": client, "works": all[1]} {
			if err := os.WriteFile(filepath.Join(dir, name+l.extension), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		start(t, "worker", dir, []string{servers(c)}, l.interpreter, "works"+l.extension)
		if out := run(t, dir, nil, l.interpreter, "submits"+l.extension); out != "3\n" {
			t.Errorf("the result is %q, want 3", out)
		}
	})
}

// The clients are programs, too.
func TestCommandLine(t *testing.T) {
	eachLanguage(t, func(t *testing.T, l language) {
		c := cluster.Start(t, cluster.Options{})
		dir := l.desk(t)
		handler, spec := "def count(job):\n    return len(job.payload.split())\n", "wc=tasks:count"
		if l.name == "js" {
			handler, spec = "export default (job) => job.payload.split(\" \").length;\n", "wc=tasks.mjs"
		}
		if err := os.WriteFile(filepath.Join(dir, "tasks"+l.extension), []byte(handler), 0o600); err != nil {
			t.Fatal(err)
		}
		call := func(args ...string) string {
			return strings.TrimSpace(run(t, dir, []string{servers(c)}, append([]string{l.interpreter, filepath.Base(l.client)}, args...)...))
		}
		id := call("submit", "wc", `"three little words"`)
		if status := object(t, call("get", id))["status"]; status != "unclaimed" {
			t.Errorf("the job is %v", status)
		}
		w := start(t, "worker", dir, []string{servers(c)}, l.interpreter, filepath.Base(l.client), "worker", spec)
		if job := object(t, call("wait", id)); job["result"] != 3.0 {
			t.Errorf("the job: %v", job)
		}
		if n := object(t, call("stats"))["completedTotal"]; n != 1.0 {
			t.Errorf("%v jobs are completed", n)
		}
		if status := call("cancel", call("submit", "other")); status != "cancelled" {
			t.Errorf("the other job is %s", status)
		}
		w.signal(15)
		w.ended(limit / 4)
	})
}
