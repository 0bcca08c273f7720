package btree

import "slices"

// Set adds an item, or replaces the same item.
func (t *Tree[T]) Set(item T) {
	if t.root == nil {
		t.root = &node[T]{generation: t.generation, count: 1, items: []T{item}}
		return
	}
	if t.full(t.root) {
		t.root = &node[T]{generation: t.generation, count: t.root.count, children: []*node[T]{t.root}}
		t.splitFor(t.root, 0, item)
	}
	t.set(&t.root, item)
}

func (t *Tree[T]) full(n *node[T]) bool { return len(n.items) == maxItems }

// set sets an item below a node that is not full, and reports whether it is new. It splits
// full nodes on its way down, so that each has room for an item of the node below.
func (t *Tree[T]) set(at **node[T], item T) (added bool) {
	n := t.own(at)
	i, found := t.find(n, item)
	switch {
	case found:
		n.items[i] = item
		return false
	case n.children == nil:
		n.items = slices.Insert(n.items, i, item)
		n.count++
		return true
	case t.full(n.children[i]):
		t.splitFor(n, i, item)
		if i, found = t.find(n, item); found {
			n.items[i] = item
			return false
		}
	}
	if added = t.set(&n.children[i], item); added {
		n.count++
	}
	return added
}

// splitFor splits the full child i of n, so that there is room for an item: in halves, or
// near the end if the item comes there.
func (t *Tree[T]) splitFor(n *node[T], i int, item T) {
	left := t.own(&n.children[i])
	mid, leaf := maxItems/2, left.children == nil
	if t.less(left.items[maxItems-1], item) {
		if mid = maxItems - 2; leaf {
			mid++ // the new node gets the item at once
		}
	}
	middle := left.items[mid]
	right := &node[T]{generation: t.generation, items: make([]T, 0, maxItems+1)}
	right.items = append(right.items, left.items[mid+1:]...)
	if !leaf {
		right.children = append(make([]*node[T], 0, maxItems+1), left.children[mid+1:]...)
	}
	left.keep(mid)
	left.recount()
	right.recount()
	n.items = slices.Insert(n.items, i, middle)
	n.children = slices.Insert(n.children, i+1, right)
}

// keep drops all but the first items of a node, and their children.
func (n *node[T]) keep(items int) {
	clear(n.items[items:])
	n.items = n.items[:items]
	if n.children != nil {
		clear(n.children[items+1:])
		n.children = n.children[:items+1]
	}
}

func (n *node[T]) recount() {
	n.count = len(n.items)
	for _, c := range n.children {
		n.count += c.count
	}
}

// DropWhile calls drop with the first item while over is true for it. drop deletes the item.
func (t *Tree[T]) DropWhile(over func(T) bool, drop func(T)) {
	for first, ok := t.Min(); ok && over(first); first, ok = t.Min() {
		drop(first)
	}
}

// Delete removes the item that is the same as key, if there is one.
func (t *Tree[T]) Delete(key T) {
	if t.root == nil || !t.remove(&t.root, key) {
		return
	}
	switch {
	case t.root.count == 0:
		t.root = nil
	case len(t.root.items) == 0:
		t.root = t.root.children[0]
	}
}

func (t *Tree[T]) remove(at **node[T], key T) bool {
	n := t.own(at)
	i, found := t.find(n, key)
	switch {
	case n.children == nil && !found:
		return false
	case n.children == nil:
		n.items = slices.Delete(n.items, i, i+1)
		n.count--
		return true
	case found:
		n.items[i] = t.removeMax(&n.children[i])
	case !t.remove(&n.children[i], key):
		return false
	}
	n.count--
	t.balance(n, i)
	return true
}

// removeMax removes the last item below a node, and returns it.
func (t *Tree[T]) removeMax(at **node[T]) (last T) {
	n := t.own(at)
	n.count--
	if n.children == nil {
		last = n.items[len(n.items)-1]
		n.keep(len(n.items) - 1)
		return last
	}
	i := len(n.items)
	last = t.removeMax(&n.children[i])
	t.balance(n, i)
	return last
}

// balance joins the child i of n, which has lost an item, and a neighbour if they fit into
// one node. If the child has no item left, it gets some of its neighbour.
func (t *Tree[T]) balance(n *node[T], i int) {
	few := len(n.children[i].items)
	if few >= fewItems {
		return
	}
	i = min(i, len(n.items)-1)
	left, right := n.children[i], n.children[i+1]
	all := len(left.items) + 1 + len(right.items)
	if all > maxItems && few > 0 {
		return
	}
	items := slices.Concat(left.items, n.items[i:i+1], right.items)
	children := slices.Concat(left.children, right.children)
	if all <= maxItems {
		n.children[i] = t.node(items, children)
		n.items = slices.Delete(n.items, i, i+1)
		n.children = slices.Delete(n.children, i+1, i+2)
		return
	}
	mid := all / 2
	n.items[i] = items[mid]
	n.children[i] = t.node(part(items, 0, mid), part(children, 0, mid+1))
	n.children[i+1] = t.node(part(items, mid+1, all), part(children, mid+1, all+1))
}

func (t *Tree[T]) node(items []T, children []*node[T]) *node[T] {
	n := &node[T]{generation: t.generation, items: items, children: children}
	n.recount()
	return n
}

// part returns a copy of a part of a list, or nil for the children of a leaf.
func part[T any](list []T, from, to int) []T {
	if list == nil {
		return nil
	}
	return slices.Clone(list[from:to])
}
