package document_test

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"osqueue/storage/document"
)

// garbage generates values that people and clients write in place of a valid one.
var garbage = rapid.SampledFrom([]string{
	`null`, `5`, `-5`, `1e99`, `2.5`, `"x"`, `"\ufffd"`, `""`, `true`, `[]`, `{}`, `[5]`, `["x",null]`, `[{}]`, `{"kind":5}`, `"9223372036854775807"`,
	`"blocked"`, `"in_progress"`, `"unclaimed"`, `"cancelled"`, `"period"`, `"/w=="`, `["/w=="]`, `99999999999999999999`, `[{"end":"failed"},7]`,
})

// garble replaces, removes and swaps values in the objects of a list.
func garble(t *rapid.T, list []any) []any {
	if len(list) == 0 {
		return list
	}
	for range rapid.IntRange(0, 12).Draw(t, "changes") {
		i := rapid.IntRange(0, len(list)-1).Draw(t, "element")
		o, ok := list[i].(map[string]any)
		switch kind := rapid.IntRange(0, 9).Draw(t, "change"); {
		case kind == 0:
			list[i] = json.RawMessage(garbage.Draw(t, "element"))
		case kind == 1:
			k := rapid.IntRange(0, len(list)-1).Draw(t, "with")
			list[i], list[k] = list[k], list[i]
		case kind == 2:
			list = append(list, list[i])
		case kind == 3 && len(list) > 1:
			list = slices.Delete(list, i, i+1)
		case ok:
			names := slices.Sorted(maps.Keys(o))
			names = append(names, "tags", "after", "waitsFor", "cancelAt", "history", "progress", "batchId", "group", "uniqueScope", "afterBase64")
			name := rapid.SampledFrom(names).Draw(t, "member")
			list[i] = maps.Clone(o)
			list[i].(map[string]any)[name] = json.RawMessage(garbage.Draw(t, "value"))
		}
	}
	return list
}

// TestGarbledJobs checks that no queue is lost because of values that legacy brokers
// accept: whatever their lists have, there is a machine, it keeps working, and it has all
// jobs of the lists.
func TestGarbledJobs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := randomMachine(t).View()
		doc := parseAny(t, document.Encode(document.Inline(v), header, "a:1", v.Meta().Now))
		doc["broker"] = "192.0.2.9:8080"
		lists := []string{"jobs"}
		if rapid.Bool().Draw(t, "without header") {
			delete(doc, "osqueue")
			lists = append(lists, "scheduled", "blocked", "finished", "dead")
		}
		for _, name := range lists {
			doc[name] = garble(t, doc[name].([]any))
		}
		n := 0
		for _, name := range []string{"jobs", "scheduled", "blocked", "finished", "dead"} {
			n += len(doc[name].([]any))
		}
		data, err := json.Marshal(doc)
		if err != nil {
			t.Fatal(err)
		}
		_, m := machine(t, data)
		there := 0
		for _, of := range m.Counts() {
			there += of
		}
		if there < n {
			t.Fatalf("%d jobs are left of %d in\n%s", there, n, data)
		}
		goOn(t, m)
	})
}

// TestGarbledRecords replaces values in fields that only this program writes: Decode
// returns an error, or there is a machine that keeps working.
func TestGarbledRecords(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := randomMachine(t).View()
		doc := parseAny(t, document.Encode(document.Inline(v), header, "a:1", v.Meta().Now))
		if rapid.Bool().Draw(t, "overtaken") {
			doc["broker"] = "192.0.2.9:8080"
		}
		for _, name := range []string{"blocked", "queues", "turns", "crons", "batches", "holds", "requests"} {
			if rapid.IntRange(0, 3).Draw(t, "which") == 0 {
				doc[name] = garble(t, doc[name].([]any))
			}
		}
		data, err := json.Marshal(doc)
		if err != nil {
			t.Fatal(err)
		}
		read, err := document.Decode(data)
		if err != nil {
			return
		}
		if m, err := read.Machine(); err == nil {
			goOn(t, m)
		}
	})
}
