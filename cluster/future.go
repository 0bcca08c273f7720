package cluster

import (
	"context"
	"reflect"

	"github.com/hashicorp/raft"
)

// waitFuture waits for raft, whose futures know no context.
func (n *Node) waitFuture(ctx context.Context, f raft.Future) error {
	return waitFuture(ctx, f, n.down)
}

func waitFuture(ctx context.Context, f raft.Future, down chan struct{}) error {
	failWhenDown(f, down)
	done := make(chan error, 1)
	go func() { done <- f.Error() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// failWhenDown has a future fail with raft.ErrRaftShutdown when down is closed, if raft
// has not answered it: entries that are committed, and not applied yet, when raft is
// shut down never get an answer (hashicorp/raft issue 498). The futures have a field for
// it, which raft itself sets in a few only.
func failWhenDown(f raft.Future, down chan struct{}) {
	v := reflect.ValueOf(f)
	if v.Kind() != reflect.Pointer || v.Elem().Kind() != reflect.Struct {
		return // it has its answer from the start
	}
	field := v.Elem().FieldByName("ShutdownCh")
	if field.IsValid() && field.CanSet() && field.Type() == reflect.TypeOf(down) {
		field.Set(reflect.ValueOf(down))
	}
}
