package main

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"slices"
)

// ref is a reference from one file to another.
type ref struct{ from, to string }

// attempts is the number of random orders from which the search starts.
const attempts = 40

// bestOrder returns the order of the files with the fewest references against it that a local
// search finds. The result is the same for the same references.
func bestOrder(refs map[ref]map[string]bool) []string {
	files := make(map[string]bool)
	for r := range refs {
		files[r.from], files[r.to] = true, true
	}
	order := slices.Sorted(maps.Keys(files))
	rng := rand.New(rand.NewPCG(1, 1))
	best := slices.Clone(order)
	for range attempts {
		rng.Shuffle(len(order), func(i, k int) { order[i], order[k] = order[k], order[i] })
		improve(refs, order)
		if len(against(refs, order)) < len(against(refs, best)) {
			best = slices.Clone(order)
		}
	}
	return best
}

// improve moves single files as long as that helps.
func improve(refs map[ref]map[string]bool, order []string) {
	for changed := true; changed; {
		changed = false
		for _, file := range slices.Clone(order) {
			from := slices.Index(order, file)
			if to := bestPlace(refs, order, from); to != from {
				moved := slices.Insert(slices.Delete(slices.Clone(order), from, from+1), to, file)
				copy(order, moved)
				changed = true
			}
		}
	}
}

// bestPlace returns the index at which the file at index from has the fewest references against
// the order. It prefers the present one.
func bestPlace(refs map[ref]map[string]bool, order []string, from int) int {
	file := order[from]
	others := slices.Delete(slices.Clone(order), from, from+1)
	cost, costs := 0, make([]int, 0, len(order))
	for _, other := range others { // at index 0, all that the file refers to comes later
		if refs[ref{file, other}] != nil {
			cost++
		}
	}
	costs = append(costs, cost)
	for _, other := range others { // behind the other
		if refs[ref{file, other}] != nil {
			cost--
		}
		if refs[ref{other, file}] != nil {
			cost++
		}
		costs = append(costs, cost)
	}
	best := slices.Index(costs, slices.Min(costs))
	if costs[from] == costs[best] {
		return from
	}
	return best
}

// against returns the references to files that come later in the order.
func against(refs map[ref]map[string]bool, order []string) []ref {
	place := make(map[string]int)
	for i, file := range order {
		place[file] = i
	}
	var bad []ref
	for r := range refs {
		if place[r.from] < place[r.to] {
			bad = append(bad, r)
		}
	}
	slices.SortFunc(bad, func(a, b ref) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to)) })
	return bad
}
