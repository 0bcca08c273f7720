package archive

import (
	"strings"
	"testing"

	"osqueue/fsm"
	"osqueue/storage"
)

func TestNames(t *testing.T) {
	t.Parallel()
	after, last := fsm.LSN{Term: 2, Index: 9}, fsm.LSN{Term: 3, Index: 12}
	names := []name{
		{kind: segmentKind, lineage: "l", after: after, last: last, at: 0, id: "A"},
		{kind: segmentIndexKind, lineage: "l", last: last, at: 17, id: "B2"},
		{kind: manifestKind, lineage: "l", after: last, last: last, at: 1 << 62, id: "c"},
		{kind: partKind, lineage: "l~", after: after, last: last, at: 5, id: "D", part: "part-000012"},
		newName(segmentKind, lineage, after, last, 1_700_000_000_000),
		newName(manifestKind, lineage, fsm.LSN{Term: 1<<64 - 1, Index: 1<<64 - 1}, fsm.LSN{Term: 1<<64 - 1, Index: 1<<64 - 1}, 1<<63-1),
	}
	for _, n := range names {
		key := n.key()
		if err := storage.ValidateKey(key); err != nil {
			t.Error(err)
		}
		if got, ok := parseName(key); !ok || got != n {
			t.Errorf("%q is read as %+v, %v; want %+v", key, got, ok, n)
		}
	}
}

// last12 is the LSN 1-2 at the beginning of a name.
const last12 = "00000000000000000001-00000000000000000002"

func TestOtherNames(t *testing.T) {
	t.Parallel()
	for _, key := range []string{
		"", "queue.json", "log/", "log/l", "log//LAST~1-1~0~A.seg", "log/l/x.seg",
		"log/l/LAST~1-1~0~A", "log/l/LAST~1-1~0~A.tmp", "log/l/LAST~1-1~0~.seg", "log/l/LAST~1-1~0~A~B.seg",
		"log/l/LAST~1-1~0.seg", "log/l/LAST~1-1~-1~A.seg", "log/l/LAST~1-1~00~A.seg", "log/l/LAST~1-1~+1~A.seg",
		"log/l/LAST~01-1~0~A.seg", "log/l/1-2~1-1~0~A.seg", "log/l/LAST~1-2~0~A.seg", "log/l/LAST~1-3~0~A.seg", "log/l/LAST~1-1~0~A.B.seg",
		"log/l/m/LAST~1-1~0~A.seg", "log/l/LAST~1-1~0~A/manifest.json", "checkpoint/l/LAST~1-1~0~A.seg",
		"checkpoint/l/LAST~1-1~0~A/", "checkpoint/l/LAST~1-1~0~A/part-", "checkpoint/l/LAST~1-1~0~A/part-x", "checkpoint/l/LAST~1-1~0~A/part-1.tmp",
		"checkpoint/l/LAST~1-1~0~A/b/manifest.json", "checkpoint/l/LAST~1-3~0~A/manifest.json", "checkpoint/l/manifest.json",
		"checkpoint/l/LAST~1-1~99999999999999999999~A/manifest.json", "/log/l/LAST~1-1~0~A.seg", "log/l/LAST~1-1~0~A.seg/",
	} {
		key = strings.ReplaceAll(key, "LAST", last12)
		if n, ok := parseName(key); ok {
			t.Errorf("%q is taken for %+v", key, n)
		}
	}
}

func FuzzName(f *testing.F) {
	for _, key := range []string{
		"log/l/LAST~1-1~0~A.seg", "log/l/00000000000000000003-00000000000000000002~1-1~17~A.idx", "checkpoint/l/LAST~0-0~0~A/manifest.json", "checkpoint/l/LAST~1-2~0~A/part-000000",
		"log/l/x~y~z~.seg", "other/c/n/1-2-3~4/manifest.json",
	} {
		f.Add(strings.ReplaceAll(key, "LAST", last12))
	}
	f.Fuzz(func(t *testing.T, key string) {
		n, ok := parseName(key)
		if !ok {
			return
		}
		if n.key() != key {
			t.Fatalf("%q is read as the name of %q", key, n.key())
		}
		if !strings.HasPrefix(key, checkpointPrefix) && !strings.HasPrefix(key, logPrefix) {
			t.Fatalf("%q is taken for ours", key)
		}
	})
}
