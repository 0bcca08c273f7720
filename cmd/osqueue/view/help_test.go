package view

import (
	"strings"
	"testing"
)

// A paragraph with a line that is too long is filled again; others, lists and examples stay as they are.
func TestHelpIsNotRagged(t *testing.T) {
	const text = "Shows the nodes and the\nrates,\nand --more-of-it - if so.\n\nKeys: q\nquits.\n\nUsage:\n  osqueue top --with a very long example\n\nFlags:\n      --interval duration   time between two polls of it\n"
	const want = "Shows the nodes and\nthe rates, and\n--more-of-it - if\nso.\n\nKeys: q\nquits.\n\nUsage:\n  osqueue top --with a very long example\n\nFlags:\n      --interval duration   time between two polls of it\n"
	if got := wrapLines(text, 20); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// Long cells are cut on a narrow screen, but no times, of which half says nothing.
func TestTimesAreNotCut(t *testing.T) {
	g, out := screenOf(60, nil)
	row := []string{"2026-11-26T15:09:36Z", "a-principal-with-a-long-name", "POST /v1/jobs/claim", "ok"}
	if err := g.TableOf(Columns("TIME", "PRINCIPAL", "ACTION", "OUTCOME"), [][]string{row}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), row[0]) || strings.Contains(out.String(), row[1]) {
		t.Errorf("%q", out)
	}
}
