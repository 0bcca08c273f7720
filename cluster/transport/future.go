package transport

import (
	"context"
	"reflect"

	"github.com/hashicorp/raft"
)

// Await waits for a future of raft. Raft's futures take no context, so the wait also ends
// with ctx. down is closed when raft has ended; then Await returns raft.ErrRaftShutdown.
func Await(ctx context.Context, f raft.Future, down chan struct{}) error {
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

// failWhenDown makes a future fail with raft.ErrRaftShutdown when down is closed and raft
// has not answered it. Entries that are committed but not applied when raft is shut down
// never get an answer (hashicorp/raft issue 498). The futures have the field ShutdownCh
// for this case, but raft itself sets it in only a few of them.
func failWhenDown(f raft.Future, down chan struct{}) {
	v := reflect.ValueOf(f)
	if v.Kind() != reflect.Pointer || v.Elem().Kind() != reflect.Struct {
		return // the future has its answer from the start
	}
	field := v.Elem().FieldByName("ShutdownCh")
	if field.IsValid() && field.CanSet() && field.Type() == reflect.TypeOf(down) {
		field.Set(reflect.ValueOf(down))
	}
}
