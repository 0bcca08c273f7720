package main

import (
	"fmt"
	"io"
	"maps"
	"slices"

	"osqueue/tests/replay/player"
)

// counts counts the results of the cases of a file.
type counts struct {
	count   map[player.Outcome]int
	reasons map[string]int // reasons for skipped cases
	differ  []player.Result
}

func newCounts() *counts {
	return &counts{count: make(map[player.Outcome]int), reasons: make(map[string]int)}
}

func (t *counts) add(r player.Result) {
	t.count[r.Outcome]++
	switch r.Outcome {
	case player.Skipped:
		t.reasons[r.Why]++
	case player.Fail, player.Quirk:
		t.differ = append(t.differ, r)
	}
}

// print writes a line for the file and the differences.
func (t *counts) print(out io.Writer, name string) {
	fmt.Fprintf(out, "%-36s %4d pass %4d fail %4d quirk %4d skipped\n", name,
		t.count[player.Pass], t.count[player.Fail], t.count[player.Quirk], t.count[player.Skipped])
	for _, why := range slices.Sorted(maps.Keys(t.reasons)) {
		fmt.Fprintf(out, "  skipped %d: %s\n", t.reasons[why], why)
	}
	for i := range t.differ {
		describe(out, &t.differ[i])
	}
}

// describe writes the difference of a case.
func describe(out io.Writer, r *player.Result) {
	fmt.Fprintf(out, "  %s: %s\n", r.Outcome, r.Case.Name)
	fmt.Fprintf(out, "    request:  %s\n", r.Request)
	fmt.Fprintf(out, "    at:       %s\n", r.Diff.Where)
	fmt.Fprintf(out, "    expected: %s\n", r.Diff.Want)
	fmt.Fprintf(out, "    got:      %s\n", r.Diff.Got)
}
