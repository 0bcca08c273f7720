package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestReferencesAgainstTheOrder(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module x\n",
		"a.go":   "package x\n\ntype A struct{ b *B }\n",
		"b.go":   "package x\n\ntype B struct{ n int }\n\nfunc (b *B) up() A { return A{b} }\n\nfunc f() { g() }\n",
		"c.go":   "package x\n\nfunc g() {}\n\nfunc h() { f(); g() }\n",
		"d.go":   "package x\n\nfunc top() { f(); h(); _ = A{} }\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var out strings.Builder
	if err := run(&out, []string{dir}, true); err != nil {
		t.Fatal(err)
	}
	// a and b refer to each other, and so do b and c: one of each pair is against any order.
	if row := strings.Fields(strings.Split(out.String(), "\n")[1]); row[1] != "4" || row[2] != "7" || row[3] != "2" {
		t.Errorf("got\n%s", out.String())
	}
	if err := run(&out, []string{t.TempDir()}, false); err == nil {
		t.Error("a folder without Go files is measured")
	}
}
