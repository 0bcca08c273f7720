package document_test

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/storage/document"
)

func setExtra(id, extra string) *fsmpb.Mutation {
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_SetExtra{SetExtra: &fsmpb.SetExtra{JobId: id, Extra: extra}}}
}

var nobodys = []string{
	"note", "x", "", "Jobs", "seqBase64", "noteBase64", "é\u2028", `"\`, "extra", "status ", "__proto__", "7",
}

// extraGen generates fields with unknown names that are not names of Base64 fields either.
var extraGen = rapid.Custom(func(t *rapid.T) string {
	names := rapid.SliceOfNDistinct(rapid.SampledFrom(nobodys), 0, 4, rapid.ID).Draw(t, "names")
	var extra []byte
	for _, name := range names {
		value := rapid.SampledFrom([]string{
			`null`, `1`, `2.50`, `1e400`, `-0`, `""`, `"\ud800"`, `"é"`, `{"a":[{}],"a":2}`, `[]`, `true`, `9007199254740993`,
			`"` + strings.Repeat("long", 50) + `"`,
		}).Draw(t, "value")
		extra = fmt.Appendf(extra, `,%s:%s`, quoted(name), value)
	}
	if len(extra) == 0 {
		return ""
	}
	return "{" + string(extra[1:]) + "}"
})

func quoted(name string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(name) + `"`
}

// TestExtraOfAnOriginal takes over a legacy document with unknown fields: they stay at the
// same level, unchanged, and in the same order.
func TestExtraOfAnOriginal(t *testing.T) {
	text := `{"schema" : 3,"broker":"192.0.2.7:80","brokerHeartbeat":1,"meta":{"a" : [ 1.0, null ]},"jobs":[
		{"note":"n","id":"a","status":"unclaimed","payload":1,"createdAt":1,"attempts":0,"when" : 1e3},
		{"id":"b","status":"in_progress","createdAt":1,"attempts":1,"workerId":"w","heartbeat":1,"\u006eote":{"deep":{"id":[ ]}}},
		{"id":"c","status":"unclaimed","createdAt":1,"attempts":0}],"completedTotal":7,"z":"\ud800"}`
	doc, m := machine(t, []byte(text))
	if doc.Lost != 0 {
		t.Errorf("%d are lost", doc.Lost)
	}
	want := map[string]string{"a": `{"note":"n","when":1e3}`, "b": `{"note":{"deep":{"id":[]}}}`, "c": ""}
	for id, extra := range want {
		if got := m.Job(id).Details().Extra; got != extra {
			t.Errorf("job %s has %s, want %s", id, got, extra)
		}
	}
	if m.Job("c").Det != nil {
		t.Error("a job without such members pays for them")
	}
	out := string(document.Encode(document.Inline(m.View()), header, "10.0.0.1:8080", 2))
	for _, part := range []string{
		`"seq":1,"note":"n","when":1e3},`, `"heldMs":30000,"note":{"deep":{"id":[]}}},`,
		`,"requests":[],"figures":[],"schema":3,"meta":{"a":[1.0,null]},"z":"\ud800"}`,
	} {
		if !strings.Contains(out, part) {
			t.Errorf("no %s in %s", part, out)
		}
	}
	if got, want := m.View().Bytes(), int64(len("1")+len(want["a"])+len(want["b"])); got != want {
		t.Errorf("%d bytes are counted, want %d", got, want)
	}

	// The same applies after a legacy broker has written the document again.
	taken := takeOver(t, []byte(out), "192.0.2.9:8080", 100_000)
	after, again := machine(t, taken)
	if !after.Overtaken || after.Lost != 0 || again.Meta().Extra != m.Meta().Extra {
		t.Errorf("overtaken %v, lost %d, of the document %s", after.Overtaken, after.Lost, again.Meta().Extra)
	}
	for id, extra := range want {
		if got := again.Job(id).Details().Extra; got != extra {
			t.Errorf("after an original, job %s has %s, want %s", id, got, extra)
		}
	}
}

// TestExtraGolden pins the form of a document with unknown fields.
func TestExtraGolden(t *testing.T) {
	m := rich(t)
	apply(t, m, 3, m.Meta().Now, setExtra("", `{"schema":3,"extra":{"a":[1.0,null]},"é":"\ud800"}`),
		setExtra("j1", `{"note":"n","seqBase64":1}`), setExtra("j7", `{"note":{"deep":{"id":[]}}}`))
	want := golden(t, "testdata/extra.json", document.Inline(m.View()))
	if _, back := machine(t, want); back.View().Hash() != m.View().Hash() {
		t.Error("the state changed on its way")
	}
}

// TestExtraReading reads odd unknown fields.
func TestExtraReading(t *testing.T) {
	deep := strings.Repeat("[", 5000) + strings.Repeat("]", 5000)
	for _, c := range []struct{ members, want string }{
		{`"a":1,"b":2,"a":3`, `{"a":3,"b":2}`}, // as in JavaScript
		{"\"a\":\"\xff\",\"\xfe\":1", "{\"a\":\"\ufffd\",\"\ufffd\":1}"},
		{`"a":null`, `{"a":null}`},
		{`"\u0061\"":"\u0061"`, `{"a\"":"\u0061"}`},
		{`"seqBase64":5,"noteBase64":"no base64"`, `{"seqBase64":5,"noteBase64":"no base64"}`},
		{`"typeBase64":"eA==","payloadBase64":5`, ``}, // Base64 fields of this package
		{`"a":` + deep, `{"a":` + deep + `}`},
		{`"":""`, `{"":""}`},
	} {
		for name, form := range map[string]string{
			"an original's": `{"jobs":[{"id":"j","status":"unclaimed",%s}]}`,
			"taken over":    `{"broker":"o","jobs":[{"id":"j","status":"unclaimed",%s}],"osqueue":{"format":1,"address":"a"}}`,
			"ended":         `{"jobs":[],"dead":[{"id":"j","status":"dead",%s}],"osqueue":{"format":1}}`,
			"document":      `{"jobs":[{"id":"j","status":"unclaimed"}],"osqueue":{"format":1},%s}`,
		} {
			if strings.Contains(c.members, "typeBase64") && (name == "document" || name == "ended") {
				continue // no Base64 fields there; fields of this package are read strictly
			}
			_, m := machine(t, fmt.Appendf(nil, form, c.members))
			got := m.Job("j").Details().Extra
			if name == "document" {
				got = m.Meta().Extra
			}
			if got != c.want {
				t.Errorf("%s, %.80s: %.80s, want %.80s", name, c.members, got, c.want)
			}
			doc, back := machine(t, document.Encode(document.Inline(m.View()), header, "a", 1))
			if back.View().Hash() != m.View().Hash() || doc.Lost != 0 {
				t.Errorf("%s, %.80s: it comes back as %.80s", name, c.members, back.Job("j").Details().Extra)
			}
		}
	}
}

// TestExtraRoundTrip checks that unknown fields come back from every form of document,
// whatever happens to the jobs, and add nothing else.
func TestExtraRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := generator{T: t, m: fsm.New(), now: 5}
		g.live(15)
		for range rapid.IntRange(1, 4).Draw(t, "with extra") {
			n := g.newJob()
			n.Extra = extraGen.Draw(t, "of a new job")
			apply(t, g.m, 2, g.now, enqueue(n), setExtra("", extraGen.Draw(t, "of the document")))
			if ids := g.someJobs(); len(ids) > 0 {
				apply(t, g.m, 2, g.now, setExtra(ids[0], extraGen.Draw(t, "of a job")))
			}
		}
		g.live(15)
		v := g.m.View()
		data := document.Encode(document.Inline(v), header, "a:1", 5)
		doc, m := machine(t, data)
		if m.View().Hash() != v.Hash() || doc.Lost != 0 {
			t.Fatalf("the state changed on its way through\n%s", data)
		}
		large := document.Inline(v)
		large.State, large.Archive = nil, archiveGen(t, v.LSN())
		if doc, err := document.Decode(document.Encode(large, header, "a:1", 5)); err != nil || doc.Meta != v.Meta() {
			t.Fatalf("%v: a large document says\n%+v\nof\n%+v", err, doc.Meta, v.Meta())
		}
	})
}

// TestExtraBesideOurs gives unknown fields names of this package. They are not written, because they would replace the fields of this
// package.
func TestExtraBesideOurs(t *testing.T) {
	m := fsm.New()
	apply(t, m, 1, 10, enqueue(newJob("a", " 1"), newJob("b", "2")),
		setExtra("a", `{"seq":9,"note":1,"payloadBase64":"Mg==","priority":5,"waitsFor":["b"],"id":"c","status":"dead","cron":"c"}`),
		setExtra("b", `{"tags":["x"]}`),
		setExtra("", `{"jobs":[],"broker":"x","brokerBase64":"eA==","osqueue":{},"dead":7,"base":{},"tail":{},"counts":{},"mine":1,"workers":[]}`))
	data := document.Encode(document.Inline(m.View()), header, "a:1", 5)
	_, back := machine(t, data)
	if got := back.Meta().Extra; got != `{"mine":1}` {
		t.Errorf("of the document came %s from %s", got, data)
	}
	a, b := back.Job("a"), back.Job("b")
	if a == nil || a.Details().Extra != `{"note":1}` || a.Seq != 1 || a.Status != fsm.Unclaimed || string(a.Payload()) != " 1" || a.Priority != 0 {
		t.Errorf("a came back as %+v from %s", a, data)
	}
	if b == nil || b.Det != nil || b.Opt != nil {
		t.Errorf("b came back as %+v", b)
	}
}

// TestExtraBound checks that each field beyond the bound is left out and counted.
func TestExtraBound(t *testing.T) {
	big := func(n int) string { return `"` + strings.Repeat("x", n-2) + `"` }
	for _, c := range []struct {
		members, want string
		lost          int
	}{
		{`"a":` + big(fsm.ExtraMax-6), `{"a":` + big(fsm.ExtraMax-6) + `}`, 0},
		{`"a":` + big(fsm.ExtraMax-5), ``, 1},
		{`"a":` + big(fsm.ExtraMax) + `,"b":1,"c":` + big(fsm.ExtraMax) + `,"d":2`, `{"b":1,"d":2}`, 2},
	} {
		for of, form := range map[string]string{
			"job":      `{"jobs":[{"id":"j","status":"unclaimed",%s}]}`,
			"document": `{"jobs":[{"id":"j","status":"unclaimed"}],%s}`,
		} {
			doc, m := machine(t, fmt.Appendf(nil, form, c.members))
			got := m.Meta().Extra + m.Job("j").Details().Extra
			if got != c.want || doc.Lost != c.lost {
				t.Errorf("of a %s %.20s… became %d bytes, %d lost; want %d, %d", of, c.members, len(got), doc.Lost, len(c.want), c.lost)
			}
			again, back := machine(t, document.Encode(document.Inline(m.View()), header, "a", 1))
			if again.Lost != 0 || back.View().Hash() != m.View().Hash() {
				t.Errorf("%d are lost the second time", again.Lost)
			}
		}
	}
}

// TestExtraNamedLikeOurs counts the fields of a legacy document with names of this package.
func TestExtraNamedLikeOurs(t *testing.T) {
	for members, want := range map[string]int{
		`"jobs":[{"id":"a","status":"unclaimed","tags":["x"],"seq":5,"note":1},{"id":"b","status":"unclaimed"}]`: 1,
		`"workers":5,"jobs":[],"base":[1],"schema":3`:                                                            2,
		`"workers":[],"jobs":[],"tail":null`:                                                                     2,
		`"jobs":[{"id":"a","status":"dead","tags":["x"]}]`:                                                       0,
	} {
		doc, m := machine(t, []byte("{"+members+"}"))
		if doc.Lost != want {
			t.Errorf("%s: %d are lost, want %d", members, doc.Lost, want)
		}
		if again, _ := machine(t, document.Encode(document.Inline(m.View()), header, "a", 1)); again.Lost != 0 {
			t.Errorf("%s: %d are lost from ours", members, again.Lost)
		}
	}
}

// TestBase64FieldOfAList checks that a name that only looks like the Base64 field of a list is
// unknown, and not a second list.
func TestBase64FieldOfAList(t *testing.T) {
	_, m := machine(t, []byte(`{"jobsBase64":1,"osqueueBase64":2,"jobs":[{"id":"a","status":"unclaimed"}]}`))
	if got := m.Meta().Extra; got != `{"jobsBase64":1,"osqueueBase64":2}` || m.Job("a") == nil {
		t.Errorf("the document has %s", got)
	}
}

// TestExtraInALargeDocument checks that jobs that are added to a large document keep their
// unknown fields, and that the document keeps its own.
func TestExtraInALargeDocument(t *testing.T) {
	c := document.Inline(rich(t).View())
	c.State, c.Archive = nil, archive()
	c.Meta.LSN, c.Meta.Extra = c.Archive.LSN(), `{"schema":3}`
	data := document.Encode(c, header, "a:1", 5)
	edited := bytes.Replace(data, []byte(`"schema":3`), []byte(`"schema":4,"jobs":[{"id":"new","status":"unclaimed","note":1}]`), 1)
	doc, err := document.Decode(edited)
	if err != nil || !doc.Large || doc.Meta.Extra != `{"schema":4}` || len(doc.Jobs) != 1 || doc.Jobs[0].Details().Extra != `{"note":1}` {
		t.Fatalf("%v: %+v", err, doc)
	}
	carried := contentOf(doc)
	carried.Added = doc.Jobs
	again, err := document.Decode(document.Encode(carried, *doc.Header, "a:1", 6))
	if err != nil || again.Meta.Extra != doc.Meta.Extra || !reflect.DeepEqual(again.Jobs, doc.Jobs) {
		t.Fatalf("%v: carried over it is %+v", err, again)
	}
}
