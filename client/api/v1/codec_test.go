package v1_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"runtime"
	"strings"
	"testing"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"google.golang.org/protobuf/encoding/protowire"
	"pgregory.net/rapid"

	v1 "osqueue/client/api/v1"
)

// messages are the bodies that have codecs, also those within others.
var messages = []v1.Message{
	&v1.NewJob{}, &v1.Enqueued{}, &v1.Batch{}, &v1.BatchEnqueued{}, &v1.Claim{}, &v1.Claimed{}, &v1.ClaimedJob{}, &v1.Heartbeat{},
	&v1.Complete{}, &v1.NextClaim{}, &v1.Fail{}, &v1.Release{}, &v1.Reported{}, &v1.Lease{}, &v1.HeartbeatBatch{}, &v1.CompleteLease{},
	&v1.CompleteBatch{}, &v1.FailLease{}, &v1.FailBatch{}, &v1.ReleaseLease{}, &v1.ReleaseBatch{}, &v1.ReportedBatch{},
	&v1.ReportedItem{}, &v1.OnError{}, &v1.Backoff{}, &v1.Progress{},
}

func fresh(m v1.Message) v1.Message {
	return reflect.New(reflect.TypeOf(m).Elem()).Interface().(v1.Message)
}

// fill draws values for all fields.
func fill(t *rapid.T, v reflect.Value) {
	switch v.Interface().(type) {
	case json.RawMessage:
		v.SetBytes(rapid.SampledFrom([][]byte{nil, []byte("null"), []byte(`{ "a": 1.0, "a" :[ ] }`), []byte(`"\ud83d\/"`)}).Draw(t, "raw"))
		return
	case map[string]string:
		if m := rapid.MapOfN(rapid.String(), rapid.String(), 0, 2).Draw(t, "map"); len(m) > 0 {
			v.Set(reflect.ValueOf(m))
		}
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(rapid.OneOf(rapid.Just(""), rapid.String()).Draw(t, "text"))
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(t, "flag"))
	case reflect.Int32, reflect.Int64:
		v.SetInt(rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(math.MinInt32, math.MaxInt32)).Draw(t, "number"))
	case reflect.Uint8, reflect.Uint64:
		v.SetUint(uint64(rapid.Uint8().Draw(t, "number")))
	case reflect.Pointer:
		if rapid.Bool().Draw(t, "there") {
			v.Set(reflect.New(v.Type().Elem()))
			fill(t, v.Elem())
		}
	case reflect.Slice:
		if n := rapid.IntRange(0, 3).Draw(t, "items"); n > 0 {
			v.Set(reflect.MakeSlice(v.Type(), n, n))
			for i := range n {
				fill(t, v.Index(i))
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			fill(t, v.Field(i))
		}
	default:
		t.Fatalf("no values for %s", v.Type())
	}
}

// A message survives both encodings, and its JSON is that of the struct.
func TestMessagesSurviveBothEncodings(t *testing.T) {
	for _, kind := range messages {
		t.Run(reflect.TypeOf(kind).Elem().Name(), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				m := fresh(kind)
				fill(t, reflect.ValueOf(m).Elem())
				b, err := m.AppendProto([]byte("x"))
				if err != nil {
					t.Fatal(err)
				}
				back := fresh(kind)
				if err := back.ParseProto(append(b[1:], 0xf8, 0x3f, 1), 200); err != nil || !reflect.DeepEqual(back, m) {
					t.Fatalf("%+v became %+v, %v", m, back, err)
				}
				text, err := m.AppendJSON(nil)
				if err != nil {
					t.Fatal(err)
				}
				read := fresh(kind)
				lenient := jsonv2.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true), jsontext.PreserveRawStrings(true))
				if err := jsonv2.Unmarshal(text, read, lenient, jsonv2.RejectUnknownMembers(true)); err != nil || !same(read, m) {
					t.Fatalf("%s: %+v became %+v, %v", text, m, read, err)
				}
				want, err := jsonv2.Marshal(m, lenient, jsonv2.Deterministic(true))
				compact := jsontext.Value(bytes.Clone(text))
				if err = errors.Join(err, compact.Compact(lenient)); err != nil || !bytes.Equal(compact, want) {
					t.Fatalf("%s, %v; want %s", compact, err, want)
				}
			})
		})
	}
}

// same compares messages. A required list that is empty is not nil in JSON.
func same(a, b v1.Message) bool {
	x, _ := a.AppendProto(nil)
	y, _ := b.AppendProto(nil)
	return bytes.Equal(x, y)
}

func TestTextThatIsNotUTF8(t *testing.T) {
	m := v1.ClaimedJob{JobID: "a\xff\xfeb", Headers: map[string]string{"k": "\xff"}}
	body, err := m.AppendJSON(nil)
	wrong, ok := errors.AsType[*v1.FieldError](err)
	if !ok || wrong.Pointer != "/jobId" || !strings.HasPrefix(string(body), `{"jobId":"a��b"`) {
		t.Errorf("%s, %v", body, err)
	}
	body, err = m.AppendProto(nil)
	var back v1.ClaimedJob
	if parsed := back.ParseProto(body, 9); err == nil || parsed != nil || back.JobID != "a��b" || back.Headers["k"] != "�" {
		t.Errorf("%+v, %v, %v", back, err, parsed)
	}
}

// field appends a field with bytes.
func field(b []byte, num protowire.Number, v string) []byte {
	return protowire.AppendString(protowire.AppendTag(b, num, protowire.BytesType), v)
}

func number(num protowire.Number, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(nil, num, protowire.VarintType), v)
}

func TestParseProtoRefuses(t *testing.T) {
	deep := strings.Repeat("[", 8) + strings.Repeat("]", 8)
	many := bytes.Repeat(field(nil, 1, ""), 1001)
	for _, c := range []struct {
		m    v1.Message
		body []byte
		want string
	}{
		{&v1.NewJob{}, []byte{0x0a}, "the message is not valid protobuf"},
		{&v1.NewJob{}, []byte{0x0b, 0x0b}, "the message is not valid protobuf"},
		{&v1.NewJob{}, field(nil, 1, "\xff"), "id is not UTF-8"},
		{&v1.NewJob{}, number(1, 3), "id has the wire type 0; want 2"},
		{&v1.NewJob{}, field(nil, 3, ""), "payload is not valid JSON"},
		{&v1.NewJob{}, field(nil, 3, "{"), "payload is not valid JSON"},
		{&v1.NewJob{}, field(nil, 3, "1 2"), "payload is not valid JSON"},
		{&v1.NewJob{}, field(nil, 3, "\"\xff\""), "payload is not valid JSON"},
		{&v1.NewJob{}, field(nil, 3, deep), "payload nests objects and lists too deep"},
		{&v1.NewJob{}, number(4, 1<<31), "priority is 2147483648; want a whole number from -2147483648 to 2147483647"},
		{&v1.NewJob{}, field(nil, 4, "1"), "priority has the wire type 2; want 0"},
		{&v1.NewJob{}, field(nil, 15, "\xff"), "tags is not UTF-8"},
		{&v1.NewJob{}, field(nil, 28, string(field(nil, 1, "\xff"))), "headers is not UTF-8"},
		{&v1.NewJob{}, field(nil, 12, "\x08\x01"), "backoff/kind has the wire type 0; want 2"},
		{&v1.Batch{}, field(field(nil, 1, ""), 1, string(field(nil, 3, "{"))), "jobs/1/payload is not valid JSON"},
		{&v1.Batch{}, field(nil, 1, string(field(nil, 3, deep[1:15]))), "jobs/0/payload nests objects and lists too deep"},
		{&v1.Batch{}, many, "jobs has 1001 items; at most 1000 are allowed"},
		{&v1.Heartbeat{}, field(nil, 3, string(number(1, 256))), "progress/percent is 256; want a whole number from 0 to 255"},
	} {
		if err := c.m.ParseProto(c.body, 8); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%T %x: %v, want %s", c.m, c.body[:min(len(c.body), 40)], err, c.want)
		}
	}
	var job v1.NewJob
	if err := job.ParseProto(field(nil, 3, deep[1:15]), 8); err != nil {
		t.Errorf("as deep as allowed: %v", err)
	}
}

// allocated returns the bytes that f allocates.
func allocated(f func()) int {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return int(after.TotalAlloc - before.TotalAlloc)
}

// Bodies of the shortest items cost the most memory for their length.
func TestParseProtoAllocatesAMultipleOfItsInput(t *testing.T) {
	for num := range protowire.Number(30) {
		for _, item := range [][]byte{field(nil, num+1, ""), field(nil, num+1, "1"), number(num+1, 0)} {
			body := bytes.Repeat(item, 20_000)
			for _, kind := range messages {
				m := fresh(kind)
				most := 64*len(body) + 16384*400 // the items of the longest list
				if n := allocated(func() { _ = m.ParseProto(body, 9) }); n > most {
					t.Errorf("%T of %x: %d bytes for %d", m, item, n, len(body))
				}
			}
		}
	}
}

// A parser never panics, and what it accepts survives both encodings.
func FuzzParseProto(f *testing.F) {
	for i, m := range []v1.Message{
		&v1.NewJob{ID: "a", Payload: json.RawMessage(`{"n":[1,2]}`), Backoff: &v1.Backoff{Kind: "fixed", BaseMs: 1}, Headers: map[string]string{"a": "b"}},
		&v1.Batch{Jobs: []v1.NewJob{{Type: "t"}, {Priority: -1, Tags: []string{"a", ""}}}},
		&v1.Claim{WorkerID: new("w"), Max: new(int32(0)), Types: []string{"t"}},
		&v1.Complete{Token: 1 << 63, Result: json.RawMessage("null"), Claim: &v1.NextClaim{RequestID: "r"}},
		&v1.Claimed{Jobs: []v1.ClaimedJob{{JobID: "a", MaxAttempts: new(int32(-3))}}, LSN: "1-2"},
		&v1.ReportedBatch{Results: []v1.ReportedItem{{JobID: "a", Status: "ok"}}},
	} {
		b, _ := m.AppendProto(nil)
		f.Add(i, b)
	}
	f.Add(0, []byte{0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, which int, b []byte) {
		m := fresh(messages[uint(which)%uint(len(messages))])
		if m.ParseProto(b, 20) != nil {
			return
		}
		out, err := m.AppendProto(nil)
		again := fresh(m)
		if err = errors.Join(err, again.ParseProto(out, 20)); err != nil || !reflect.DeepEqual(m, again) {
			t.Fatalf("%x: %+v became %+v, %v", b, m, again, err)
		}
		text, err := m.AppendJSON(nil)
		if err != nil || !v1.ValidJSON(text) || v1.TooDeep(text, 20) >= 0 {
			t.Fatalf("%x: %s, %v", b, text, err)
		}
	})
}
