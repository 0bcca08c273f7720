package storage

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
)

func TestValidateKey(t *testing.T) {
	good := []string{
		"queue.json", "log/7-100-7-900.seg", "snapshots/c~1/n1~ab/2-9-1700", "a", "a/b/c",
		strings.Repeat("k", MaxSegmentBytes), "x:y@z,=+_-",
	}
	for _, key := range good {
		if err := ValidateKey(key); err != nil {
			t.Errorf("ValidateKey(%q) = %v, want nil", key, err)
		}
	}
	bad := []string{
		"", "/", "a/", "/a", "a//b", ".", "..", "a/../b", ".hidden", "a/.b", "a b", "ä", "a\\b", "a\x00",
		strings.Repeat("k", MaxSegmentBytes+1), strings.Repeat("k/", MaxKeyBytes), "a\n", "a?b", "a%2fb",
	}
	for _, key := range bad {
		if err := ValidateKey(key); !errors.Is(err, ErrInvalidKey) {
			t.Errorf("ValidateKey(%q) = %v, want ErrInvalidKey", key, err)
		}
	}
}

func FuzzValidateKey(f *testing.F) {
	for _, seed := range []string{"queue.json", "a/b", "../x", "", "a//b", "\xff"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, key string) {
		if ValidateKey(key) != nil {
			return
		}
		if !filepath.IsLocal(key) || filepath.Clean(key) != key {
			t.Fatalf("valid key %q is not a clean local path", key)
		}
	})
}

func TestOutcomeZeroIsUnknown(t *testing.T) {
	var w Write
	if w.Outcome != Unknown || w.Outcome.String() != "unknown" {
		t.Fatalf("zero Write has outcome %v, want unknown", w.Outcome)
	}
}
