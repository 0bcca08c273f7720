// Package btree implements ordered sets that are copied in constant time.
//
// # Layout
//
// A Tree is a B-tree of nodes with up to 63 items. An item is in one node only, leaf or not.
// A set that grows at its end, as a queue does, has full nodes: a node that overflows at its
// end keeps all of its items, and the new item begins the next node. So an item of 8 bytes
// takes about 9. A node that overflows elsewhere is split in halves.
//
// A node may have few items, but not none. After a deletion two nodes become one if they
// fit; otherwise an empty node gets half of the items of its neighbour. So a set that
// shrinks at its beginning, as a queue does, moves an item once or twice.
//
// # Copies
//
// Each node has the generation of its tree in which it was made. Copy starts a new
// generation, and a change first copies the nodes of earlier ones on its path. A copy shares
// the nodes of its tree and is never changed: all of its methods that read are safe for
// concurrent use, also with changes of the tree.
//
// # Why not a library
//
// The trees of the library that was used here before are half full when a set grows at its
// end, and compare six items a node where the ends need one.
package btree

import "iter"

// maxItems is the largest number of items in a node. A node with 63 items and one more
// child fills allocations of 512 bytes.
const maxItems = 63

// fewItems is the number of items below which a deletion tries to join two nodes.
const fewItems = maxItems / 2

// Tree is a set of items in an order. Only one goroutine may use it while it changes; see
// Copy for readers.
type Tree[T any] struct {
	root       *node[T] // nil: empty
	less       func(a, b T) bool
	generation uint64
}

// node has items between its children: those of children[i] are less than items[i].
type node[T any] struct {
	generation uint64
	count      int // items of the node and below it
	items      []T
	children   []*node[T] // one more than items; nil in a leaf
}

// New returns an empty set in the order of less. Two items of which none is less than the
// other are the same item for the set.
func New[T any](less func(a, b T) bool) *Tree[T] { return &Tree[T]{less: less} }

// Copy returns a copy in constant time, which must not be changed. It counts as a change of
// t: the tree copies the nodes that it changes afterwards.
func (t *Tree[T]) Copy() *Tree[T] {
	c := *t
	t.generation++
	return &c
}

// Len returns the number of items.
func (t *Tree[T]) Len() int {
	if t.root == nil {
		return 0
	}
	return t.root.count
}

// own returns the node at a place of the tree, after copying it if a copy of the tree may
// have it.
func (t *Tree[T]) own(at **node[T]) *node[T] {
	n := *at
	if n.generation == t.generation {
		return n
	}
	c := &node[T]{generation: t.generation, count: n.count}
	c.items = append(make([]T, 0, cap(n.items)), n.items...)
	if n.children != nil {
		c.children = append(make([]*node[T], 0, cap(n.children)), n.children...)
	}
	*at = c
	return c
}

// find returns the index of the first item of n that is not less than the key, and whether
// it is the key. It looks at the ends first, where queues change.
func (t *Tree[T]) find(n *node[T], key T) (i int, found bool) {
	low, high := 0, len(n.items)
	if high == 0 || t.less(n.items[high-1], key) {
		return high, false
	}
	if !t.less(n.items[0], key) {
		return 0, !t.less(key, n.items[0])
	}
	for low++; low < high; {
		if mid := int(uint(low+high) / 2); t.less(n.items[mid], key) {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low, !t.less(key, n.items[low])
}

// Get returns the item of the set that is the same as key.
func (t *Tree[T]) Get(key T) (item T, ok bool) {
	for n := t.root; n != nil; {
		i, found := t.find(n, key)
		if found {
			return n.items[i], true
		}
		if n.children == nil {
			break
		}
		n = n.children[i]
	}
	return item, false
}

// Find is Get, and returns the zero T if there is no such item.
func (t *Tree[T]) Find(key T) T {
	item, _ := t.Get(key)
	return item
}

// GetAt returns the item with an index in the order.
func (t *Tree[T]) GetAt(index int) (item T, ok bool) {
	if index < 0 || index >= t.Len() {
		return item, false
	}
	n := t.root
	for n.children != nil {
		i := 0
		for ; index > n.children[i].count; i++ {
			index -= n.children[i].count + 1
		}
		if index == n.children[i].count {
			return n.items[i], true
		}
		n = n.children[i]
	}
	return n.items[index], true
}

// Min returns the first item.
func (t *Tree[T]) Min() (item T, ok bool) {
	n := t.root
	if n == nil {
		return item, false
	}
	for n.children != nil {
		n = n.children[0]
	}
	return n.items[0], true
}

// Max returns the last item.
func (t *Tree[T]) Max() (item T, ok bool) {
	n := t.root
	if n == nil {
		return item, false
	}
	for n.children != nil {
		n = n.children[len(n.children)-1]
	}
	return n.items[len(n.items)-1], true
}

// Scan calls fn for all items in order until fn returns false.
func (t *Tree[T]) Scan(fn func(T) bool) {
	if t.root != nil {
		t.root.scan(fn)
	}
}

func (n *node[T]) scan(fn func(T) bool) bool {
	for i, item := range n.items {
		if len(n.children) > 0 && !n.children[i].scan(fn) || !fn(item) {
			return false
		}
	}
	return len(n.children) == 0 || n.children[len(n.items)].scan(fn)
}

// Ascend calls fn for the items that are not less than from, in order, until fn returns
// false.
func (t *Tree[T]) Ascend(from T, fn func(T) bool) {
	if t.root != nil {
		t.ascend(t.root, from, fn)
	}
}

// From iterates over the items that are not less than from, in order.
func (t *Tree[T]) From(from T) iter.Seq[T] {
	return func(yield func(T) bool) { t.Ascend(from, yield) }
}

func (t *Tree[T]) ascend(n *node[T], from T, fn func(T) bool) bool {
	i, found := t.find(n, from)
	if !found && n.children != nil && !t.ascend(n.children[i], from, fn) {
		return false
	}
	for ; i < len(n.items); i++ {
		if !fn(n.items[i]) || len(n.children) > 0 && !n.children[i+1].scan(fn) {
			return false
		}
	}
	return true
}
