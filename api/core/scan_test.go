package core

import (
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json"

	v1 "osqueue/client/api/v1"
)

var scanSeeds = []string{
	`{"id":"a","type":"t","payload":{"n":[1,2.50,"x\u0041"]},"priority":-1,"maxAttempts":3,"leaseMs":1000,"runAt":1800000000000}`,
	`{"payload":null,"delayMs":5,"timeoutMs":7,"group":"g","tags":["a",""],"uniqueKey":"k"}`, ` { "payload" : [ ] } `, `{}`,
	`{"workerId":"w","types":["t",""],"max":2,"leaseMs":500,"requestId":"r","waitMs":3}`, `{"types":[]}`, `{"types":null}`,
	`{"workerId":"w","token":4294967297,"result":{"a":1,"a":2},"log":"l"}`, `{"token":-1}`, `{"token":-0}`, `{"max":3000000000}`,
	`{"jobs":[{"id":"b"},{"type":"t","payload":"` + "\u2028" + `"}]}`, `{"jobs":[]}`, `{"jobs":[null]}`, `{"jobs":null}`,
	`{"id":"a","id":"b"}`, `{"ID":"a"}`, `{"type":"\u0041"}`, `{"x":1}`, `{"id":5}`, `{"maxAttempts":1.0}`, `{"a":1}x`, `[]`,
	`{"headers":{"a":"1","b":"2"}}`, `{"headers":{"a":"1","a":"2"}}`, `{"headers":null}`, `{"headers":{}}`, `{"headers":{"a":1}}`,
	`{"workerId":"w","token":1,"claim":{"requestId":"r","types":[],"max":1,"leaseMs":1000}}`, `{"claim":null}`, `{"token":-1}`,
	`{"workerId":"w","jobs":[{"jobId":"a","token":1,"result":2,"log":"x"},{}],"claim":{"requestId":"r"}}`, `{"jobs":[null]}`,
	"{\"type\":\"\x7f\"}",
}

// scanTargets returns new values of the types whose bodies are scanned.
func scanTargets() []any {
	return []any{new(v1.NewJob), new(v1.Batch), new(v1.Claim), new(v1.Complete), new(v1.CompleteBatch)}
}

// The busy bodies of our own clients do not need the general decoder.
func TestBusyBodiesAreScanned(t *testing.T) {
	for body, v := range map[string]any{
		`{"type":"mail","payload":{"to":"a@example.org"}}`:                                           new(v1.NewJob),
		`{"jobs":[{"type":"mail","payload":1,"tags":["a"]},{"id":"x","uniqueKey":"k","delayMs":5}]}`: new(v1.Batch),
		`{"workerId":"w","types":["mail"],"max":10,"waitMs":1000,"requestId":"r"}`:                   new(v1.Claim),
		`{"workerId":"w","token":4294967297,"result":{"ok":true},"log":"done"}`:                      new(v1.Complete),
		`{"type":"mail","headers":{"traceparent":"00-1-1-01"}}`:                                      new(v1.NewJob),
		`{"workerId":"w","token":1,"claim":{"requestId":"r","types":["mail"],"max":1}}`:              new(v1.Complete),
		`{"workerId":"w","jobs":[{"jobId":"a","token":1,"result":2}],"claim":{"requestId":"r"}}`:     new(v1.CompleteBatch),
	} {
		if !scanned([]byte(body), v) {
			t.Errorf("%s was not scanned into %T", body, v)
		}
	}
}

// The scanner returns the values of the general decoder, also when unknown fields
// are refused.
func FuzzScan(f *testing.F) {
	for _, seed := range scanSeeds {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if !utf8.Valid(body) {
			return // parse refuses it first
		}
		general := scanTargets()
		for i, v := range scanTargets() {
			if !scanned(body, v) {
				continue
			}
			if err := json.Unmarshal(body, general[i], Lenient, json.RejectUnknownMembers(true)); err != nil {
				t.Fatalf("%q was scanned into %+v; the general decoder says %v", body, v, err)
			}
			if !reflect.DeepEqual(v, general[i]) {
				t.Fatalf("%q was scanned into %+v; the general decoder has %+v", body, v, general[i])
			}
		}
	})
}

func BenchmarkDecodeNewJob(b *testing.B) {
	body := []byte(`{"type":"mail","payload":"` + strings.Repeat("x", 180) + `"}`)
	for name, decode := range map[string]func(v *v1.NewJob) bool{
		"scan":    func(v *v1.NewJob) bool { return scanned(body, v) },
		"general": func(v *v1.NewJob) bool { return json.Unmarshal(body, v, namesOnce) == nil },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if !decode(new(v1.NewJob)) {
					b.Fatal("not decoded")
				}
			}
		})
	}
}
