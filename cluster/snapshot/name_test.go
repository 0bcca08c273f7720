package snapshot

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"osqueue/storage"
)

func TestKeysAreRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		u := upload{
			cluster: rapid.StringMatching(`[0-9a-f]{1,16}`).Draw(t, "cluster"),
			node:    rapid.StringMatching(`[A-Za-z0-9][A-Za-z0-9._-]{0,62}(~[0-9a-f]{16})?`).Draw(t, "node"),
			point:   point{rapid.Uint64().Draw(t, "term"), rapid.Uint64().Draw(t, "index")},
			at:      rapid.Int64Min(0).Draw(t, "at"),
			id:      rapid.StringMatching(`[A-Z2-7]{26}`).Draw(t, "id"),
		}
		got, ok := parseKey(u.manifest())
		if !ok || got != u {
			t.Fatalf("%s is read as %+v, %v", u.manifest(), got, ok)
		}
		if err := storage.ValidateKey(u.manifest()); err != nil {
			t.Fatal(err)
		}
	})
}

func FuzzParseKey(f *testing.F) {
	f.Add("snapshots/c1/n1~0a/7-1200-1706000000000~ABCDEFGH/manifest.json")
	f.Add("snapshots/c1/n1/7-1200-1706000000000~ABCDEFGH/000000.part")
	f.Add("snapshots/c1/n1/07-1200-1706000000000~ABCDEFGH/manifest.json")
	f.Add("snapshots/c1/n1/7-1200-1706000000000/manifest.json")
	f.Add("snapshots//n1/7-1200-1~A/manifest.json")
	f.Add("snapshots/c1/n1/7-1200--1~A/x")
	f.Add("snapshots/c1/n1/7-1200-1~A/x/y")
	f.Fuzz(func(t *testing.T, key string) {
		if u, ok := parseKey(key); ok && (!strings.HasPrefix(key, u.prefix()+"/") || strings.Count(key, "/") != 4) {
			t.Fatalf("%q is read as an object of %+v", key, u)
		}
	})
}

func TestSurveyOrdersByContent(t *testing.T) {
	keys := []string{
		"snapshots/c1/n1/2-5-900~A/manifest.json",
		"snapshots/c1/n1/2-5-900~A/000000.part",
		"snapshots/c1/n2/2-5-901~B/000001.part",
		"snapshots/c1/n2/2-5-901~B/000000.part",
		"snapshots/c1/n1/10-4-100~C/manifest.json",
		"snapshots/c1/n1/2-40-100~D/manifest.json",
		"snapshots/c2/n1/99-99-100~E/manifest.json",
		"snapshots/c1/n1/readme.txt",
		"queue.json",
	}
	var got string
	for _, f := range survey(keys, "c1") {
		got += f.id
		if f.id == "B" && (f.complete || len(f.parts) != 2 || f.parts[0] > f.parts[1]) {
			t.Errorf("the upload without manifest is seen as %+v", f)
		}
	}
	if got != "CDBA" {
		t.Errorf("the order is %s", got)
	}
}
