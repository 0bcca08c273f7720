package fsm_test

import (
	"bytes"
	"encoding/hex"
	"flag"
	"os"
	"strings"
	"testing"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

// The golden files have an entry and a snapshot as released nodes have them on their
// disks. If one of these tests fails, the format has changed: raise the version, keep the
// old file and the code that reads it, and add a new one. The flag -rewrite replaces the
// files; it is for files that no release has written yet.

func golden(t *testing.T, path string, data []byte) []byte {
	t.Helper()
	if flag.Lookup("rewrite").Value.String() == "true" {
		if err := os.WriteFile(path, []byte(hex.Dump(data)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	dump, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return undump(t, dump)
}

// undump reads what hex.Dump writes.
func undump(t *testing.T, dump []byte) []byte {
	var out []byte
	for line := range bytes.Lines(dump) {
		if len(line) < 60 {
			continue
		}
		for _, field := range bytes.Fields(line[10:58]) {
			b, err := hex.DecodeString(string(field))
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, b...)
		}
	}
	return out
}

func TestEntryFormat(t *testing.T) {
	b := everyKind(t)
	b.Mutations[0].GetEnqueue().Jobs = append(b.Mutations[0].GetEnqueue().Jobs,
		&fsmpb.NewJob{Id: "extra", Extra: `{"a":1}`},
		&fsmpb.NewJob{Id: "full", Priority: -3, MaxAttempts: new(int32), LeaseMs: 9},
		&fsmpb.NewJob{Id: "no payload", Payload: nil},
		&fsmpb.NewJob{Id: "empty payload", Payload: []byte{}})
	b.Mutations[1].GetClaim().LeaseMs = 7
	delay := int64(11)
	b.Mutations[4].GetFail().RetryDelayMs = &delay
	data := entry(t, b)
	want := golden(t, "testdata/entry-12.hex", data)
	if !bytes.Equal(data, want) {
		t.Fatalf("an entry is encoded in another way:\n%s", hex.Dump(data))
	}
	m, old := lived(t), lived(t)
	m.Apply(90, 2, decode(t, data))
	old.Apply(90, 2, decode(t, want))
	if m.View().Hash() != old.View().Hash() {
		t.Fatal("an entry on disk means something else")
	}
}

// TestOldEntries applies entries of older versions, which had fewer fields.
func TestOldEntries(t *testing.T) {
	for path, want := range map[string]string{
		"testdata/entry-1.hex":  "ok ok ok stale_token stale_token stale_token ok ok ok",
		"testdata/entry-2.hex":  "id_taken ok ok stale_token stale_token stale_token ok ok ok ok ok ok ok not_found not_due ok ok",
		"testdata/entry-3.hex":  "id_taken ok ok stale_token stale_token stale_token ok ok ok ok ok ok ok not_found not_due ok ok ok",
		"testdata/entry-4.hex":  "id_taken ok ok stale_token stale_token stale_token ok ok ok ok ok ok ok not_found not_due ok ok ok not_found",
		"testdata/entry-5.hex":  "id_taken ok ok stale_token stale_token stale_token ok ok ok ok ok ok ok not_found not_due ok ok ok not_found not_found",
		"testdata/entry-6.hex":  "id_taken ok ok stale_token stale_token stale_token ok ok ok ok ok ok ok not_found not_due ok ok ok not_found not_found not_found",
		"testdata/entry-7.hex":  "id_taken ok ok stale_token stale_token stale_token ok ok ok ok ok ok ok not_found not_due ok ok ok not_found not_found ok not_found",
		"testdata/entry-8.hex":  "id_taken ok ok stale_token stale_token stale_token ok ok ok ok ok ok ok not_found not_due ok ok ok not_found not_found ok ok ok not_found",
		"testdata/entry-9.hex":  "id_taken ok ok stale_token stale_token stale_token ok ok ok ok ok ok ok not_found not_due ok ok ok not_found not_found ok ok ok ok not_found",
		"testdata/entry-10.hex": "id_taken ok ok stale_token stale_token stale_token ok ok ok ok ok ok ok not_found not_due ok ok ok not_found not_found ok ok ok ok ok ok ok not_found",
		"testdata/entry-11.hex": "too_many_token_jobs ok ok stale_token stale_token stale_token ok ok ok ok ok ok ok not_found not_due ok ok ok not_found not_found ok ok ok ok ok ok ok ok not_found ok ok ok not_found",
	} {
		dump, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var codes []string
		for _, r := range lived(t).Apply(90, 2, decode(t, undump(t, dump))) {
			codes = append(codes, r.Code.String())
		}
		if got := strings.Join(codes, " "); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}

func TestSnapshotFormat(t *testing.T) {
	t.Run("plain", func(t *testing.T) { checkSnapshotFormat(t, lived(t), "testdata/snapshot-1.hex") })
	t.Run("extra", func(t *testing.T) {
		m := lived(t)
		apply(t, m, 1004, setExtra("later", `{"note":[1,null]}`), setExtra("a", `{"x":{}}`), setExtra("", `{"schema":3}`))
		checkSnapshotFormat(t, m, "testdata/snapshot-1-extra.hex")
	})
	t.Run("log", func(t *testing.T) {
		m := lived(t)
		apply(t, m, 1004, enqueue("said"), claim("w", 99))
		apply(t, m, 1005, completeWithLog("w", "said", 0, "line\n"))
		checkSnapshotFormat(t, m, "testdata/snapshot-1-log.hex")
	})
	t.Run("level 7", func(t *testing.T) {
		m := lived(t)
		apply(t, m, 1004, raiseLevel(fsm.Level7))
		checkSnapshotFormat(t, m, "testdata/snapshot-1-level-7.hex")
	})
}

func checkSnapshotFormat(t *testing.T, m *fsm.Machine, path string) {
	t.Helper()
	data := snapshot(t, m)
	want := golden(t, path, data)
	if !bytes.Equal(data, want) {
		t.Fatalf("a snapshot is encoded in another way:\n%s", hex.Dump(data))
	}
	back, err := fsm.Decode(bytes.NewReader(want))
	if err != nil {
		t.Fatal(err)
	}
	if back.View().Hash() != m.View().Hash() {
		t.Fatal("a snapshot on disk means something else")
	}
}
