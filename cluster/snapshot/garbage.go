package snapshot

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"osqueue/storage"
)

// underWay is how much later than an upload without manifest another one must
// have begun before the first counts as given up. If it was not, it becomes
// complete with parts missing, which nobody takes for whole.
const underWay = time.Hour

// Garbage returns which of the keys under snapshots/ nobody needs any more, in
// the order in which they are to be deleted: a manifest before its parts, so
// that what looks complete is. Of the cluster's complete snapshots it spares
// the newest keep, at least one. Of those without a manifest it spares what may
// still be under way: all that are newer than the newest complete one, or began
// less than an hour before the last complete one. Keys that it does not know are never garbage,
// nor are those of other clusters, which CollectOthers removes.
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

// Collect deletes the Garbage of a cluster, at most so many objects, and returns
// how many. The active leader calls it now and then. It is safe if several do,
// and to stop anywhere.
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

// Forget deletes the snapshots of a cluster that one of its nodes has uploaded: its state
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

// CollectOthers deletes the snapshots of all clusters but this one that began
// their newest upload before a time (ms of a node's clock): clusters that lost all
// their nodes, or were taken over. A cluster that stands by uploads a snapshot now and then;
// without one, its new nodes get their state from its leader. It deletes at most so
// many objects and returns how many.
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
				return deleted, fmt.Errorf("delete a snapshot of a cluster that is gone: %w", err)
			}
			deleted++
		}
	}
	return deleted, nil
}

// manifestsFirst sorts keys of snapshots so that none looks complete that is not.
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
