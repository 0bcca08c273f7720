package document_test

import (
	"bytes"
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"osqueue/fsm"
	"osqueue/storage/document"
)

// archiveGen generates archives that end at an LSN.
func archiveGen(t *rapid.T, end fsm.LSN) *document.Archive {
	at := end
	back := func() fsm.LSN { // moves at to an earlier entry and returns it
		switch {
		case at.Index > 0:
			at.Index -= rapid.Uint64Range(1, at.Index).Draw(t, "entries")
		case at.Term > 0:
			at = fsm.LSN{Term: at.Term - 1, Index: rapid.Uint64().Draw(t, "index")}
		}
		return at
	}
	run := func() document.Run {
		r := document.Run{Last: at}
		r.After = back()
		if r.After != r.Last {
			r.Entries = rapid.Uint64Min(1).Draw(t, "number")
			r.From, r.Until = rapid.Int64().Draw(t, "from"), rapid.Int64().Draw(t, "until")
			r.Raw = rapid.Int64Min(0).Draw(t, "raw")
		}
		return r
	}
	var a document.Archive
	a.Tail.After, a.Tail.Last = at, at
	if rapid.Bool().Draw(t, "tail") {
		if a.Tail.Run = run(); a.Tail.Entries > 0 {
			a.Tail.Data, a.Tail.Sum = rapid.SliceOfN(rapid.Byte(), 1, 9).Draw(t, "data"), sumGen(t)
		}
	}
	for range rapid.IntRange(0, 3).Draw(t, "log") {
		r := document.Ref{Key: keyGen.Draw(t, "key"), Run: run(), Stored: rapid.Int64Min(0).Draw(t, "stored"), Sum: sumGen(t)}
		a.Log = append([]document.Ref{r}, a.Log...)
	}
	a.Checkpoint = document.Checkpoint{
		Key: keyGen.Draw(t, "key"), LSN: at, At: rapid.Int64().Draw(t, "at"),
		Raw: rapid.Int64Min(0).Draw(t, "raw"), Stored: rapid.Int64Min(0).Draw(t, "stored"), Sum: sumGen(t),
	}
	a.Checkpoint.Prev = back()
	return &a
}

var keyGen = rapid.StringMatching(`[a-z0-9~@:+=,_-]{1,20}(/[A-Z][a-z.]{1,9}){0,3}`)

func sumGen(t *rapid.T) (s document.Sum) {
	if rapid.Bool().Draw(t, "summed") {
		copy(s[:], rapid.SliceOfN(rapid.Byte(), len(s), len(s)).Draw(t, "sum"))
	}
	return s
}

// TestLargeRoundTrip checks that everything in a large document comes back, and that
// Machine refers to the archive.
func TestLargeRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := randomMachine(t).View()
		c := document.Inline(v)
		c.State, c.Archive = nil, archiveGen(t, v.LSN())
		if err := c.Check(); err != nil {
			t.Fatalf("%v: %+v", err, c.Archive)
		}
		data := document.Encode(c, header, "a:1", 5)
		if withState := (&document.Content{State: v, InlineMax: 1, Meta: v.Meta(), Archive: c.Archive}); !bytes.Equal(
			document.Encode(withState, header, "a:1", 5), data) {
			t.Fatal("a state that does not fit is written differently from none")
		}
		doc, err := document.Decode(data)
		if err != nil {
			t.Fatalf("%v in %s", err, data)
		}
		if !doc.Large || doc.Overtaken || len(doc.Jobs) > 0 || doc.Meta != c.Meta || doc.Counts != c.Counts ||
			!reflect.DeepEqual(doc.Archive, c.Archive) || doc.Header.LSN() != c.LSN() || doc.Header.Write != header.Write {
			t.Fatalf("%+v of archive %+v\nmeta %+v\nin %s", doc, doc.Archive, c.Meta, data)
		}
		if _, err := doc.Machine(); !errors.Is(err, document.ErrLarge) {
			t.Fatalf("machine of a large document: %v", err)
		}
		if again := document.Encode(contentOf(doc), *doc.Header, "a:1", 5); !bytes.Equal(again, data) {
			t.Fatalf("encoded again it is\n%s\nnot\n%s", again, data)
		}
	})
}

// contentOf returns the content that carries a large document over unchanged.
func contentOf(doc *document.File) *document.Content {
	return &document.Content{Meta: doc.Meta, Counts: doc.Counts, Archive: doc.Archive}
}

// TestInlineWithPast checks that an archive next to an inline state does not change the
// state, and comes back however early it ends.
func TestInlineWithPast(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := randomMachine(t).View()
		end := v.LSN()
		if end.Index > 0 && rapid.Bool().Draw(t, "late") {
			end.Index--
		}
		c := document.Inline(v)
		plain := document.Encode(c, header, "a:1", 5)
		c.Archive = archiveGen(t, end)
		c.InlineMax = rapid.SampledFrom([]int{0, len(plain), 1 << 40}).Draw(t, "bound")
		if end != v.LSN() {
			c.InlineMax = 1 // only an inline document is possible
		}
		data := document.Encode(c, header, "a:1", 5)
		if beginning := plain[:len(plain)-1]; c.Check() != nil || !bytes.HasPrefix(unsigned(data), unsigned(beginning)) {
			t.Fatalf("%s\n is not the beginning of\n%s", beginning, data)
		}
		doc, m := machine(t, data)
		if m.View().Hash() != v.Hash() || doc.Large || doc.Counts != v.Counts() || !reflect.DeepEqual(doc.Archive, c.Archive) {
			t.Fatalf("%+v with archive %+v", doc, doc.Archive)
		}
	})
}

// TestArchiveUnderOriginal lets a legacy broker work on an inline document with an archive,
// which is kept as its past.
func TestArchiveUnderOriginal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := randomMachine(t).View()
		c := document.Inline(v)
		c.Archive = archiveGen(t, v.LSN())
		old := startOldBroker(t, document.Encode(c, header, "a:1", v.Meta().Now))
		old.leaderTerm()
		data := old.text()
		doc, m := machine(t, data)
		if !doc.Overtaken || !reflect.DeepEqual(doc.Archive, c.Archive) || doc.Counts != m.Counts() {
			t.Fatalf("overtaken %v, archive %+v, counts %v of\n%s", doc.Overtaken, doc.Archive, doc.Counts, data)
		}
		delete(old.doc, "osqueue") // now it is a legacy document
		if doc, _ := machine(t, old.text()); doc.Archive != nil || doc.Large {
			t.Fatalf("archive %+v", doc.Archive)
		}
	})
}

// archive returns an archive with every kind of part, for the rich state.
func archive() *document.Archive {
	sum := func(b byte) (s document.Sum) {
		for i := range s {
			s[i] = b + byte(i)
		}
		return s
	}
	at := func(index uint64) fsm.LSN { return fsm.LSN{Term: 2, Index: index} }
	return &document.Archive{
		Checkpoint: document.Checkpoint{
			Key: "base/li/1-1~1-2~1706000000010~k7q2/manifest.json", LSN: fsm.LSN{Term: 1, Index: 2}, Prev: fsm.LSN{Term: 1, Index: 1},
			At: 1_706_000_000_010, Raw: 1200, Stored: 700, Sum: sum(0x10),
		},
		Log: []document.Ref{
			{
				Key: "log/li/1-2~2-4~1706000000030~m3xa.idx", Stored: 800, Sum: sum(0x40),
				Run: document.Run{
					After: fsm.LSN{Term: 1, Index: 2}, Last: at(4), Entries: 2, From: 1_706_000_000_020, Until: 1_706_000_000_030, Raw: 900,
				},
			},
			{
				Key: "log/li/2-4~2-7~1706000000055~p0ue.seg", Stored: 512, Sum: sum(0x70),
				Run: document.Run{After: at(4), Last: at(7), Entries: 3, From: 1_706_000_000_040, Until: 1_706_000_000_055, Raw: 640},
			},
		},
		Tail: document.Tail{
			Run:  document.Run{After: at(7), Last: at(12), Entries: 5, From: 1_706_000_000_060, Until: 1_706_000_000_100, Raw: 410},
			Data: []byte("\x28\xb5\x2f\xfd stands for a frame"), Sum: sum(0xa0),
		},
	}
}

// TestArchiveGolden pins the documents with an archive: a large one, and an inline one with
// its past.
func TestArchiveGolden(t *testing.T) {
	v := rich(t).View()
	c := document.Inline(v)
	c.Archive = archive()
	if err := c.Check(); err != nil {
		t.Fatal(err)
	}
	inline := golden(t, "testdata/inline.json", c)
	doc, m := machine(t, inline)
	if m.View().Hash() != v.Hash() || !reflect.DeepEqual(doc.Archive, archive()) {
		t.Errorf("the inline document came back as %+v with %+v", doc, doc.Archive)
	}
	if before, err := os.ReadFile("testdata/rich.json"); err != nil || !bytes.HasPrefix(unsigned(inline), unsigned(bytes.TrimSuffix(before, []byte("}\n")))) {
		t.Errorf("what older versions read has changed (%v)", err)
	}
	c.InlineMax = 4 << 10
	large := golden(t, "testdata/large.json", c)
	doc, err := document.Decode(large)
	if err != nil || !doc.Large || !reflect.DeepEqual(doc.Archive, archive()) || doc.Meta != v.Meta() || doc.Counts != v.Counts() {
		t.Errorf("the large document came back as %+v with %+v (%v)", doc, doc.Archive, err)
	}
	if bytes.Contains(large, []byte(`"jobs"`)) {
		t.Error("the large document has jobs: an original broker would take it for its own")
	}
}

// golden compares the document with a file, and returns the content of the file.
func golden(t *testing.T, file string, c *document.Content) []byte {
	t.Helper()
	got := append(document.Encode(c, header, "10.0.0.1:8080", 1_706_000_003_000), '\n')
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Fatalf("the document is now\n%s\nand was\n%s", got, want)
	}
	return want
}

// TestAddedToLarge reads jobs that a person added to a large document.
func TestAddedToLarge(t *testing.T) {
	c := &document.Content{Meta: rich(t).Meta(), Archive: archive()}
	text := string(document.Encode(c, header, "a:1", 5))
	add := func(text, members string) string { return strings.TrimSuffix(text, "}") + "," + members + "}" }

	doc, err := document.Decode([]byte(add(text, `"jobs":[{"id":"a","status":"unclaimed","payload":1,"seq":1},
		{"id":"b","status":"in_progress","workerId":"w","heartbeat":5,"token":9,"attempts":1,"progress":{"percent":4},"tags":["x"]}],
		"scheduled":[{"id":"c","status":"scheduled","runAt":1806000000000}],"crons":[{"name":"n"}],"workers":[{"name":"w"}]`)))
	if err != nil {
		t.Fatal(err)
	}
	if got := jobsText(doc); got != "a:unclaimed b:unclaimed c:scheduled " || len(doc.Crons)+len(doc.Workers) > 0 || doc.Meta != c.Meta {
		t.Errorf("jobs %s, document %+v", got, doc)
	}
	b := doc.Jobs[1]
	if b.Execution().Worker != "" || b.Execution().Token != 0 || b.Execution().Heartbeat != 0 || b.Det != nil || b.Attempts != 1 || len(b.Options().Tags) != 1 || doc.Jobs[0].Seq != 0 {
		t.Errorf("jobs %+v and %+v", doc.Jobs[0], b)
	}

	taken := add(strings.Replace(text, `"broker":"a:1"`, `"broker":"o:1"`, 1),
		`"jobs":[{"type":5},7,{"id":"a","status":"in_progress","type":null},{"id":"a","status":"unclaimed","priority":"9"}]`)
	doc, err = document.Decode([]byte(taken))
	if err != nil {
		t.Fatal(err)
	}
	if got := jobsText(doc); got != "unnamed-1:dead unnamed-2:dead a:unclaimed a-1:unclaimed " || !doc.Overtaken || doc.Meta != c.Meta {
		t.Errorf("jobs %s, overtaken %v", got, doc.Overtaken)
	}
	if _, err := document.Decode([]byte(add(text, `"jobs":[{"type":5}]`))); !errors.Is(err, document.ErrFormat) ||
		!strings.Contains(err.Error(), "at /jobs/0/type") {
		t.Errorf("a job that is none, in a document of ours: %v", err)
	}
}

// TestAddedIsCarriedOver checks that the document that a takeover writes has the added jobs
// as they were read.
func TestAddedIsCarriedOver(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := randomMachine(t)
		c := &document.Content{Meta: m.Meta(), Counts: m.Counts(), Archive: archiveGen(t, m.Meta().LSN)}
		doc, err := document.Decode(document.Encode(document.Inline(m.View()), header, "a:1", 5))
		if err != nil {
			t.Fatal(err)
		}
		c.Added = doc.Jobs // with positions and claims, which they lose
		once, err := document.Decode(document.Encode(c, header, "a:1", 5))
		if err != nil || len(once.Jobs) != len(doc.Jobs) {
			t.Fatalf("%d jobs of %d, %v", len(once.Jobs), len(doc.Jobs), err)
		}
		once.ForgetPlaces()
		c.Added = once.Jobs
		if err := c.Check(); err != nil {
			t.Fatal(err)
		}
		twice, err := document.Decode(document.Encode(c, header, "a:1", 5))
		if err != nil || !reflect.DeepEqual(once, twice) {
			t.Fatalf("%v, or they are not the same a second time:\n%+v\n%+v", err, once, twice)
		}
		c.State = m.View()
		if len(c.Added) > 0 && c.Check() == nil {
			t.Fatal("there is no place for them beside a state")
		}
	})
}

func jobsText(doc *document.File) string {
	var b strings.Builder
	for _, j := range doc.Jobs {
		b.WriteString(j.ID + ":" + j.Status.String() + " ")
	}
	return b.String()
}

// TestArchiveErrors breaks each part of the archive of a document.
func TestArchiveErrors(t *testing.T) {
	v := rich(t).View()
	inline := document.Inline(v)
	inline.Archive = archive()
	large := &document.Content{Meta: v.Meta(), Archive: archive()}
	for _, c := range []struct{ old, with, want string }{
		{`"base":{`, `"basis":{`, "the checkpoint is missing"},
		{`"base":{`, `"base":null,"basis":{`, "the checkpoint is missing"},
		{`"base":{`, `"base":5,"basis":{`, "at /base (byte"},
		{`"key":"base/`, `"key":"/base/`, "at /base: invalid object key"},
		{`"lsn":"1-2"`, `"lsn":"1-3"`, "at /log/0: it begins after 1-2, but the part before it ends at 1-3"},
		{`"lsn":"1-2"`, `"lsn":12`, "at /base/lsn"},
		{`"lsn":"1-2"`, `"lsn":"1"`, "at /base/lsn"},
		{`"prev":"1-1"`, `"prev":"1-3"`, "at /base: it is of 1-2, which is not after 1-3"},
		{`"raw":1200`, `"raw":-1`, "at /base: sizes of -1 bytes and 700 stored bytes"},
		{`"stored":700`, `"stored":-1`, "at /base: sizes of 1200 bytes and -1 stored bytes"},
		{`"sha256":"1011`, `"sha256":"10`, "at /base/sha256"},
		{`"sha256":"1011`, `"sha256":"x011`, "at /base/sha256"},
		{`"sha256":"1011`, `"sha256":5,"was":"`, "at /base/sha256"},
		{`"log":[{`, `"log":{"a":5},"was":[{`, "at /log (byte"},
		{`"log":[{`, `"log":[5,{`, "at /log/0"},
		{`"log":[{`, `"was":[{`, "at /tail: it begins after 2-7, but the part before it ends at 1-2"},
		{`"log":[{`, `"log":[],"log":[{`, `"log" occurs twice`},
		{`"key":"log/li/2`, `"key":"log//li/2`, "at /log/1: invalid object key"},
		{`"entries":3`, `"entries":0`, "at /log/1: it has 0 entries after 2-4 up to 2-7"},
		{`"entries":3`, `"entries":-3`, "at /log/1/entries"},
		{`"after":"2-4"`, `"after":"2-9"`, "at /log/1: it begins after 2-9"},
		{`"last":"2-7"`, `"last":"2-3"`, "at /log/1: it has 3 entries after 2-4 up to 2-3"},
		{`"raw":640`, `"raw":-640`, "at /log/1: the size of -640 bytes"},
		{`"stored":512`, `"stored":-9`, "at /log/1: sizes of 640 bytes and -9 stored bytes"},
		{`"sha256":"7071`, `"sha256":"7071ff`, "at /log/1/sha256"},
		{`"tail":{`, `"was":{`, "at /tail: it begins after 0-0"},
		{`"tail":{`, `"tail":[],"was":{`, "at /tail (byte"},
		{`"after":"2-7"`, `"after":"2-8"`, "at /tail: it begins after 2-8"},
		{`"last":"2-12"`, `"last":"2-13"`, "at /osqueue: the document is of 2-12, but the archive ends at 2-13"},
		{`"entries":5`, `"entries":0`, "at /tail: it has 0 entries"},
		{`"sha256":"a0a1`, `"sha256":"a0a1 `, "at /tail/sha256"},
		{`"zstd":"KLUv`, `"zstd":"KLU`, "at /tail/zstd"},
		{`"zstd":"KLUv`, `"zstd":"","was":"KLUv`, "at /tail: it has 5 entries in 0 bytes"},
		{`"zstd":"KLUv`, `"was":"KLUv`, "at /tail: it has 5 entries in 0 bytes"},
	} {
		for form, content := range map[string]*document.Content{"inline": inline, "large": large} {
			text := string(document.Encode(content, header, "a:1", 5))
			at := strings.Index(text, `"base":`)
			broken := text[:at] + strings.Replace(text[at:], c.old, c.with, 1)
			if broken == text {
				t.Fatalf("%s is not in the document", c.old)
			}
			if _, err := document.Decode([]byte(broken)); !errors.Is(err, document.ErrFormat) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s with %s:\n  %v\n  want %q", form, c.with, err, c.want)
			}
		}
	}
	text := string(document.Encode(large, header, "a:1", 5))
	for old, want := range map[string]string{
		`"counts":{`:  "at /counts/dead",
		`"index":12,`: "at /osqueue: the document is of 2-13, but the archive ends at 2-12",
	} {
		with := map[string]string{`"counts":{`: `"counts":{"dead":-1,"sleeping":{},`, `"index":12,`: `"index":13,`}[old]
		_, err := document.Decode([]byte(strings.Replace(text, old, with, 1)))
		if !errors.Is(err, document.ErrFormat) || !strings.Contains(err.Error(), want) {
			t.Errorf("with %s: %v, want %q", with, err, want)
		}
	}
}

// TestContentCheck refuses contents that could not be read again.
func TestContentCheck(t *testing.T) {
	v := rich(t).View()
	valid := func() *document.Content {
		c := document.Inline(v)
		c.Archive = archive()
		return c
	}
	for want, spoil := range map[string]func(c *document.Content){
		"":                               func(*document.Content) {},
		"neither a state nor an archive": func(c *document.Content) { c.State, c.Archive = nil, nil },
		"metadata is of 0-0, but the state is of 2-12": func(c *document.Content) { c.Meta = fsm.Meta{} },
		"/tail: it begins after 9-9":                   func(c *document.Content) { c.Archive.Tail.After = fsm.LSN{Term: 9, Index: 9} },
		"ends at 2-13, but the content is of 2-12":     func(c *document.Content) { c.Archive.Tail.Last.Index++ },
		"ends at 2-12, but the content is of 2-13":     func(c *document.Content) { c.State = nil; c.Meta.LSN.Index++ },
	} {
		c := valid()
		spoil(c)
		if err := c.Check(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
