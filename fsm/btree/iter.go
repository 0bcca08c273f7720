package btree

// Iter is a place in a tree, which must not change while the iterator is in use. Item may be
// called after a method that returned true, and Next and Prev as well.
type Iter[T any] struct {
	tree *Tree[T]
	path []step[T] // from the root to the node of the item
}

// step is a node on the way to an item, and the index of the item or of the child on the way.
type step[T any] struct {
	n *node[T]
	i int
}

// Iter returns an iterator without a place.
func (t *Tree[T]) Iter() Iter[T] { return Iter[T]{tree: t, path: make([]step[T], 0, 4)} }

// Item returns the item at the place.
func (it *Iter[T]) Item() T {
	last := it.path[len(it.path)-1]
	return last.n.items[last.i]
}

// Seek moves to the first item that is not less than key. It returns false if there is none.
func (it *Iter[T]) Seek(key T) bool {
	it.path = it.path[:0]
	for n := it.tree.root; n != nil; {
		i, found := it.tree.find(n, key)
		it.path = append(it.path, step[T]{n, i})
		if found {
			return true
		}
		if n.children == nil {
			return it.up()
		}
		n = n.children[i]
	}
	return false
}

// Last moves to the last item. It returns false if the tree is empty.
func (it *Iter[T]) Last() bool {
	it.path = it.path[:0]
	if it.tree.root == nil {
		return false
	}
	it.last(it.tree.root)
	return true
}

// last continues the path to the last item below a node.
func (it *Iter[T]) last(n *node[T]) {
	for ; n.children != nil; n = n.children[len(n.items)] {
		it.path = append(it.path, step[T]{n, len(n.items)})
	}
	it.path = append(it.path, step[T]{n, len(n.items) - 1})
}

// Next moves to the next item. It returns false if there is none.
func (it *Iter[T]) Next() bool {
	at := &it.path[len(it.path)-1]
	at.i++
	if at.n.children == nil {
		return it.up()
	}
	n := at.n.children[at.i]
	for ; n.children != nil; n = n.children[0] {
		it.path = append(it.path, step[T]{n, 0})
	}
	it.path = append(it.path, step[T]{n, 0})
	return true
}

// up leaves the nodes of which all items are passed.
func (it *Iter[T]) up() bool {
	for len(it.path) > 0 {
		if at := it.path[len(it.path)-1]; at.i < len(at.n.items) {
			return true
		}
		it.path = it.path[:len(it.path)-1]
	}
	return false
}

// Prev moves to the item before. It returns false if there is none.
func (it *Iter[T]) Prev() bool {
	if at := it.path[len(it.path)-1]; at.n.children != nil {
		it.last(at.n.children[at.i])
		return true
	}
	for len(it.path) > 0 {
		at := &it.path[len(it.path)-1]
		if at.i--; at.i >= 0 {
			return true
		}
		it.path = it.path[:len(it.path)-1]
	}
	return false
}
