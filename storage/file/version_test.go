package file

import (
	"bytes"
	"crypto/sha256"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"osqueue/storage"
)

func drawCard(t *rapid.T) card {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) stamp {
		s := stamp{counter: rapid.Uint64().Draw(t, "counter")}
		copy(s.nonce[:], rapid.SliceOfN(rapid.Byte(), 8, 8).Draw(t, "nonce"))
		copy(s.sum[:], rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "sum"))
		return s
	}), 1, maxCardStamps).Draw(t, "card")
}

func TestCardRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawCard(t)
		text := c.encode()
		got, err := decodeCard(text)
		if err != nil || !slices.Equal(got, c) || len(text) > maxCardBytes {
			t.Fatalf("%s came back as %v, %v", text, got, err)
		}
		cut := rapid.IntRange(0, len(text)-1).Draw(t, "cut")
		if short, err := decodeCard(text[:cut]); err == nil && len(short) == len(c) {
			t.Fatalf("a torn card was taken for a whole one: %q", text[:cut])
		}
	})
}

// TestVersionsNeverRepeat writes a few contents over and over.
func TestVersionsNeverRepeat(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var c card
		var current [sha256.Size]byte
		seen := map[storage.Version]bool{}
		for _, content := range rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c"}), 1, 30).Draw(t, "contents") {
			sum := sha256.Sum256([]byte(content))
			s, next := c.next(current, sum)
			if seen[s.version()] {
				t.Fatalf("version %s came back", s.version())
			}
			seen[s.version()] = true
			if found, ok := next.find(sum); !ok || found != s {
				t.Fatalf("the card does not name the new bytes: %v", next)
			}
			if old, ok := c.find(current); ok && sum != current {
				if found, ok := next.find(current); !ok || found != old {
					t.Fatalf("the card no longer names the old bytes: %v", next)
				}
			}
			c, current = next, sum
		}
	})
}

func FuzzDecodeCard(f *testing.F) {
	f.Add([]byte(nil))
	f.Add([]byte(cardHeader))
	_, c := card{}.next([32]byte{}, [32]byte{1})
	f.Add(c.encode())
	_, c = c.next([32]byte{1}, [32]byte{2})
	f.Add(c.encode())
	f.Add(append(c.encode(), '\n'))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := decodeCard(data)
		if err == nil && !bytes.Equal(c.encode(), data) {
			t.Fatalf("%q was read as %v, which is written %q", data, c, c.encode())
		}
	})
}
