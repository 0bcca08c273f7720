package snapshot

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"osqueue/storage"
)

// underWay is the time after which an upload without manifest counts as abandoned: a
// complete upload must have begun that much later. If the older upload was still in
// progress, it becomes complete with missing parts, and no reader accepts it.
const underWay = time.Hour

// Garbage returns the keys under snapshots/ that are no longer needed, in the order in
// which they must be deleted: a manifest before its parts, so that an upload with a
// manifest has all its parts. Garbage keeps the newest keep complete snapshots of the
// cluster, at least one. It keeps an upload without a manifest that may still be in
// progress: one that is newer than the newest complete one, or began less than an hour
// before the last complete one. It also keeps unknown keys, and those of other clusters,
// which CollectOthers deletes.
func Garbage(keys []string, cluster string, keep int) []string {
	all := survey(keys, cluster)
	whole := completed(all)
	if len(whole) == 0 {
		return nil
	}
	newest := whole[0]
	last := whole[min(max(keep, 1), len(whole))-1]
	begun := slices.MaxFunc(whole, func(a, b found) int { return cmp.Compare(a.at, b.at) }).at
	var garbage []string
	for _, f := range all {
		switch {
		case f.complete && f.compare(last.upload) < 0:
			garbage = append(append(garbage, f.manifest()), f.parts...)
		case !f.complete && f.compare(newest.upload) < 0 && f.at < begun-underWay.Milliseconds():
			garbage = append(garbage, f.parts...)
		}
	}
	return garbage
}

// Collect deletes the Garbage of a cluster, at most most objects, and returns the number of
// deleted objects. The active leader calls it periodically. Several concurrent calls are
// safe, and it may stop at any point.
func Collect(ctx context.Context, b storage.Bucket, cluster string, keep, most int) (deleted int, err error) {
	keys, err := listKeys(ctx, b, cluster)
	if err != nil {
		return 0, err
	}
	for _, key := range Garbage(keys, cluster, keep) {
		if deleted >= most {
			break
		}
		if err := b.Delete(ctx, key); err != nil {
			return deleted, fmt.Errorf("delete an old snapshot from the bucket: %w", err)
		}
		deleted++
	}
	return deleted, nil
}

// Forget deletes the snapshots that a node of a cluster has uploaded, because its state
// turned out to be wrong.
func Forget(ctx context.Context, b storage.Bucket, cluster, node string) error {
	keys, err := listKeys(ctx, b, cluster)
	if err != nil {
		return err
	}
	for _, key := range manifestsFirst(keys) {
		if u, ok := parseKey(key); !ok || u.node != node {
			continue
		}
		if err := b.Delete(ctx, key); err != nil {
			return fmt.Errorf("delete a snapshot of %q from the bucket: %w", node, err)
		}
	}
	return nil
}

// CollectOthers deletes the snapshots of all other clusters whose newest upload began
// before a time (ms of a node's clock): clusters that lost all their nodes, or were taken
// over. A standby cluster uploads a snapshot from time to time; without one, its new nodes
// get their state from its leader. CollectOthers deletes at most most objects and returns
// the number of deleted objects.
func CollectOthers(ctx context.Context, b storage.Bucket, cluster string, before int64, most int) (deleted int, err error) {
	newest := make(map[string]int64)
	keys := make(map[string][]string)
	err = b.List(ctx, root, func(i storage.Info) bool {
		if u, ok := parseKey(i.Key); ok && u.cluster != cluster {
			newest[u.cluster] = max(newest[u.cluster], u.at)
			keys[u.cluster] = append(keys[u.cluster], i.Key)
		}
		return true
	})
	if err != nil {
		return 0, fmt.Errorf("list %q: %w", root, err)
	}
	for other, at := range newest {
		if at >= before {
			continue
		}
		for _, key := range manifestsFirst(keys[other]) {
			if deleted >= most {
				return deleted, nil
			}
			if err := b.Delete(ctx, key); err != nil {
				return deleted, fmt.Errorf("delete a snapshot of a former cluster: %w", err)
			}
			deleted++
		}
	}
	return deleted, nil
}

// manifestsFirst sorts keys of snapshots in place, manifests first, so that no partly
// deleted upload looks complete.
func manifestsFirst(keys []string) []string {
	isManifest := func(key string) int {
		if u, ok := parseKey(key); ok && key == u.manifest() {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(keys, func(a, b string) int { return cmp.Compare(isManifest(a), isManifest(b)) })
	return keys
}
