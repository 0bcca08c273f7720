package archive

import (
	"bytes"
	"errors"
	"regexp"
	"strings"
	"testing"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/storage"
	"osqueue/storage/mem"
)

var stateMember = regexp.MustCompile(`,\s*"state":\s*"[0-9a-f]{64}"`)

// TestChecksumOfACheckpoint checks that a state which is read otherwise than it was written is
// refused, and a checkpoint without the checksum, too.
func TestChecksumOfACheckpoint(t *testing.T) {
	t.Parallel()
	r := newRecorder(1_700_000_000_000)
	for range 20 {
		r.apply(enqueue(&fsmpb.NewJob{Id: r.lsn().String(), Type: "t"}))
	}
	for name, c := range map[string]struct {
		change func(manifest []byte) []byte
		want   error
	}{
		"as written":  {func(m []byte) []byte { return m }, nil},
		"no checksum": {func(m []byte) []byte { return stateMember.ReplaceAll(m, nil) }, ErrDamaged},
		"another state": {func(m []byte) []byte {
			return stateMember.ReplaceAll(m, []byte(`,"state":"`+strings.Repeat("01", 32)+`"`))
		}, fsm.ErrDiverged},
	} {
		bucket := mem.New()
		checkpoint, err := WriteCheckpoint(t.Context(), bucket, lineage, fsm.LSN{}, r.m.View())
		must(err)
		o, err := bucket.Get(t.Context(), checkpoint.Key)
		must(err)
		changed := c.change(o.Data)
		if bytes.Equal(changed, o.Data) != (name == "as written") {
			t.Fatalf("%s: the manifest has no checksum of the state: %s", name, o.Data)
		}
		must(bucket.Delete(t.Context(), checkpoint.Key))
		if w := bucket.PutIfAbsent(t.Context(), checkpoint.Key, changed); w.Outcome != storage.Committed {
			t.Fatal(w)
		}
		m, err := readCheckpoint(t.Context(), bucket, point{lsn: checkpoint.LSN, prev: checkpoint.Prev, at: checkpoint.At, key: checkpoint.Key}, 0)
		if !errors.Is(err, c.want) || (err == nil) != (m != nil && c.want == nil) || errors.Is(err, ErrDamaged) != errors.Is(c.want, ErrDamaged) {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil && m.View().Hash() != r.m.View().Hash() {
			t.Errorf("%s: another state", name)
		}
	}
}
