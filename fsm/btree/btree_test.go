package btree

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
)

func ascending(a, b int) bool { return a < b }

// oracle is a sorted slice beside a tree, and copies of both.
type oracle struct {
	tree   *Tree[int]
	sorted []int
	copies []oracle
}

func (o *oracle) set(item int) {
	o.tree.Set(item)
	if i, found := slices.BinarySearch(o.sorted, item); !found {
		o.sorted = slices.Insert(o.sorted, i, item)
	}
}

func (o *oracle) remove(item int) {
	o.tree.Delete(item)
	if i, found := slices.BinarySearch(o.sorted, item); found {
		o.sorted = slices.Delete(o.sorted, i, i+1)
	}
}

func (o *oracle) copy() {
	o.copies = append(o.copies, oracle{tree: o.tree.Copy(), sorted: slices.Clone(o.sorted)})
}

// check compares everything that can be read, and the copies.
func (o *oracle) check(t *testing.T, r *rand.Rand) {
	t.Helper()
	if got := scanned(o.tree); !slices.Equal(got, o.sorted) || o.tree.Len() != len(o.sorted) {
		t.Fatalf("%d items, want %d, or others", len(got), len(o.sorted))
	}
	if o.tree.root != nil {
		checkNode(t, o.tree.root, true)
	}
	low, okLow := o.tree.Min()
	high, okHigh := o.tree.Max()
	if okLow != (len(o.sorted) > 0) || okHigh != okLow || okLow && (low != o.sorted[0] || high != o.sorted[len(o.sorted)-1]) {
		t.Fatalf("the ends are %d and %d", low, high)
	}
	for range 20 {
		key := r.IntN(high + 2)
		i, found := slices.BinarySearch(o.sorted, key)
		if _, ok := o.tree.Get(key); ok != found {
			t.Fatalf("Get(%d) is %v", key, ok)
		}
		if item, ok := o.tree.GetAt(i); ok != (i < len(o.sorted)) || ok && item != o.sorted[i] {
			t.Fatalf("GetAt(%d) is %d, %v", i, item, ok)
		}
		checkFrom(t, o.tree, o.sorted, key, i)
	}
	for _, c := range o.copies {
		c.check(t, r)
	}
}

func scanned(tree *Tree[int]) (items []int) {
	tree.Scan(func(item int) bool { items = append(items, item); return true })
	return items
}

// checkFrom reads a few items from a key in both directions.
func checkFrom(t *testing.T, tree *Tree[int], sorted []int, key, i int) {
	t.Helper()
	const few = 100
	want := sorted[i:min(i+few, len(sorted))]
	var got []int
	tree.Ascend(key, func(item int) bool { got = append(got, item); return len(got) < few })
	if !slices.Equal(got, want) {
		t.Fatalf("Ascend(%d) has %v, want %v", key, got, want)
	}
	it := tree.Iter()
	got = got[:0]
	for ok := it.Seek(key); ok && len(got) < few; ok = it.Next() {
		got = append(got, it.Item())
	}
	if !slices.Equal(got, want) {
		t.Fatalf("after Seek(%d) come %v, want %v", key, got, want)
	}
	got = got[:0]
	ok := it.Seek(key)
	if ok {
		ok = it.Prev()
	} else {
		ok = it.Last()
	}
	for ; ok && len(got) < few; ok = it.Prev() {
		got = append(got, it.Item())
	}
	slices.Reverse(got)
	if want = sorted[max(i-few, 0):i]; !slices.Equal(got, want) {
		t.Fatalf("before Seek(%d) come %v, want %v", key, got, want)
	}
}

// checkNode checks the shape below a node, and returns its height.
func checkNode(t *testing.T, n *node[int], root bool) int {
	t.Helper()
	if len(n.items) == 0 || len(n.items) > maxItems {
		t.Fatalf("a node has %d items (root: %v)", len(n.items), root)
	}
	height, count := -1, len(n.items)
	if n.children != nil && len(n.children) != len(n.items)+1 {
		t.Fatalf("a node has %d items and %d children", len(n.items), len(n.children))
	}
	for _, c := range n.children {
		h := checkNode(t, c, false)
		if height >= 0 && h != height {
			t.Fatalf("leaves are in heights %d and %d", h, height)
		}
		height, count = h, count+c.count
	}
	if n.count != count {
		t.Fatalf("a node counts %d items, and has %d", n.count, count)
	}
	return height + 1
}

// TestAgainstSortedSlice grows and shrinks trees at their ends and anywhere.
func TestAgainstSortedSlice(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 1))
		o := oracle{tree: New(ascending)}
		next := 0
		for range 60 {
			kind, n := r.IntN(6), r.IntN(1500)
			for range n {
				switch {
				case kind <= 1: // a queue grows
					o.set(next)
					next++
				case kind == 2:
					o.set(r.IntN(next + 1))
				case kind == 3 && len(o.sorted) > 0: // a queue shrinks
					o.remove(o.sorted[0])
				case kind == 4 && len(o.sorted) > 0:
					o.remove(o.sorted[r.IntN(len(o.sorted))])
				case kind == 5 && len(o.sorted) > 0:
					o.remove(o.sorted[len(o.sorted)-1])
				default:
					o.remove(r.IntN(next + 1))
				}
			}
			if len(o.copies) < 3 && r.IntN(5) == 0 {
				o.copy()
			}
			o.check(t, r)
		}
		for len(o.sorted) > 0 {
			o.remove(o.sorted[r.IntN(len(o.sorted))])
		}
		o.check(t, r)
	}
}

// TestQueueFillsItsNodes checks the size that a set has which grows at its end.
func TestQueueFillsItsNodes(t *testing.T) {
	t.Parallel()
	tree := New(ascending)
	const n = 100_000
	for i := range n {
		tree.Set(i)
	}
	room := roomBelow(tree.root)
	if perItem := float64(room) / n; perItem > 1.1 {
		t.Fatalf("there is room for %.2f items for each one", perItem)
	}
	for i := range n / 2 { // and from its beginning it does not get sparse
		tree.Delete(i)
	}
	if perItem := float64(roomBelow(tree.root)) / (n / 2); perItem > 1.1 {
		t.Fatalf("after a drain there is room for %.2f items for each one", perItem)
	}
}

func roomBelow(n *node[int]) int {
	room := cap(n.items)
	for _, c := range n.children {
		room += roomBelow(c)
	}
	return room
}

// TestCopiesMayBeReadWhileTheTreeChanges is for the race detector.
func TestCopiesMayBeReadWhileTheTreeChanges(t *testing.T) {
	t.Parallel()
	tree := New(ascending)
	var readers sync.WaitGroup
	for i := range 4000 {
		tree.Set(i)
		if i%500 != 499 {
			continue
		}
		c := tree.Copy()
		readers.Go(func() {
			if got := scanned(c); len(got) != i+1 {
				t.Errorf("a copy has %d items, want %d", len(got), i+1)
			}
		})
		tree.Delete(i / 2)
		tree.Set(i / 2)
	}
	readers.Wait()
}
