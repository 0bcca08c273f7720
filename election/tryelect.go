package election

import (
	"context"
	"errors"
	"fmt"

	"osqueue/storage"
)

// Status is the outcome of TryElect.
type Status string

// The outcomes of TryElect.
const (
	Elected       Status = "elected"
	AlreadyLeader Status = "already_leader"
	OtherLeader   Status = "other_leader"
	LostRace      Status = "conflict"
)

// Result is the answer of TryElect.
type Result struct {
	Status Status
	Leader string // the other leader's address, for OtherLeader
}

// TryElect is one attempt of address to become the registered broker of the document at
// key, by the rule of the legacy broker: it wins if there is no document, no broker, or a
// heartbeat older than timeoutMs at nowMs. It keeps the rest of the document byte for
// byte. It settles a write whose answer was lost before it returns. An error means that
// address was not elected, as far as can be determined.
func TryElect(
	ctx context.Context, bucket storage.Bucket, key, address string, nowMs, timeoutMs int64,
) (Result, error) {
	fail := func(err error) (Result, error) {
		return Result{}, fmt.Errorf("elect %s as broker of %q: %w", address, key, err)
	}
	o, found, err := get(ctx, bucket, key)
	if err != nil {
		return fail(err)
	}
	data := firstDocument(address, nowMs)
	if found {
		r, err := readRegistration(o.Data)
		if err != nil {
			return fail(err)
		}
		if r.broker != nil && fresh(r.heartbeat, nowMs, timeoutMs) {
			return incumbent(*r.broker, address), nil
		}
		data = r.replace(o.Data, address, nowMs)
	}
	status, err := stand(ctx, bucket, key, o.Version, data, registration{broker: &address, heartbeat: nowMs})
	if err != nil {
		return fail(err)
	}
	return Result{Status: status}, nil
}

func incumbent(broker, address string) Result {
	if broker == address {
		return Result{Status: AlreadyLeader}
	}
	return Result{Status: OtherLeader, Leader: broker}
}

// CheckLeadership reports whether address is the registered broker, even with an old
// heartbeat. Without a document it is not.
func CheckLeadership(ctx context.Context, bucket storage.Bucket, key, address string) (bool, error) {
	o, found, err := get(ctx, bucket, key)
	if err != nil || !found {
		return false, err
	}
	r, err := readRegistration(o.Data)
	if err != nil {
		return false, fmt.Errorf("check the leadership of %s in %q: %w", address, key, err)
	}
	return r.broker != nil && *r.broker == address, nil
}

// stand writes data over version ("" for none) and returns the outcome. Only a write that
// followed a lost answer has to read the document to find the winner.
func stand(
	ctx context.Context, bucket storage.Bucket, key string, version storage.Version, data []byte, us registration,
) (Status, error) {
	for attempt := 0; ; attempt++ {
		w := put(ctx, bucket, key, version, data)
		switch {
		case w.Outcome == storage.Committed:
			return Elected, nil
		case w.Outcome == storage.Conflict && attempt == 0:
			return LostRace, nil
		case notApplied(w.Err) && attempt == 0:
			return "", w.Err
		}
		o, found, err := getSettling(ctx, bucket, key)
		switch {
		case err != nil:
			return "", unknown(w, err)
		case !found && version != "":
			return LostRace, nil // another writer has removed it
		case o.Version != version:
			return whose(o.Data, us)
		}
		if !pause(ctx, attempt) {
			return "", unknown(w, ctx.Err())
		}
	}
}

// whose reports whether the document names us as the broker.
func whose(data []byte, us registration) (Status, error) {
	r, err := readRegistration(data)
	if err != nil {
		return "", err
	}
	if r.broker != nil && *r.broker == *us.broker && r.heartbeat == us.heartbeat {
		return Elected, nil
	}
	return LostRace, nil
}

// fresh reports whether a heartbeat counts as alive. A heartbeat in the future does.
func fresh(heartbeat, nowMs, timeoutMs int64) bool {
	return heartbeat >= nowMs-timeoutMs
}

// get reads an object. Absence is not an error.
func get(ctx context.Context, bucket storage.Bucket, key string) (o storage.Object, found bool, err error) {
	o, err = bucket.Get(ctx, key)
	switch {
	case errors.Is(err, storage.ErrNotFound):
		return storage.Object{}, false, nil
	case err != nil:
		return storage.Object{}, false, fmt.Errorf("read %q: %w", key, err)
	default:
		return o, true, nil
	}
}
