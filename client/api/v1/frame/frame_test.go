package frame_test

import (
	"bytes"
	"reflect"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
	"pgregory.net/rapid"

	"osqueue/client/api/v1/frame"
)

// message is a frame.Message that can be parsed.
type message interface {
	frame.Message
	Parse(b []byte) error
}

// kinds are the fields of the messages in docs/stream.md, in the order of the Go fields, by
// number from 1.
var kinds = map[string]struct {
	make   func() message
	fields []descriptorpb.FieldDescriptorProto_Type
}{
	"Hello":   {func() message { return new(frame.Hello) }, []descriptorpb.FieldDescriptorProto_Type{uint32Type, stringType, uint32Type, uint32Type, uint32Type, stringType}},
	"Request": {func() message { return new(frame.Request) }, []descriptorpb.FieldDescriptorProto_Type{stringType, bytesType, stringType, stringType, stringType, boolType}},
	"Answer":  {func() message { return new(frame.Answer) }, []descriptorpb.FieldDescriptorProto_Type{uint32Type, bytesType, stringType, stringType, boolType, boolType}},
	"Moved":   {func() message { return new(frame.Moved) }, []descriptorpb.FieldDescriptorProto_Type{stringType, boolType}},
}

const (
	uint32Type = descriptorpb.FieldDescriptorProto_TYPE_UINT32
	stringType = descriptorpb.FieldDescriptorProto_TYPE_STRING
	bytesType  = descriptorpb.FieldDescriptorProto_TYPE_BYTES
	boolType   = descriptorpb.FieldDescriptorProto_TYPE_BOOL
)

// descriptorOf returns the type of a message for the protobuf library.
func descriptorOf(t *testing.T, name string, fields []descriptorpb.FieldDescriptorProto_Type) protoreflect.MessageDescriptor {
	t.Helper()
	m := &descriptorpb.DescriptorProto{Name: proto.String(name)}
	for i, kind := range fields {
		m.Field = append(m.Field, &descriptorpb.FieldDescriptorProto{
			Name: proto.String(string(rune('a' + i))), Number: proto.Int32(int32(i + 1)), Type: kind.Enum(),
			Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(),
		})
	}
	file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: proto.String("t.proto"), Syntax: proto.String("proto3"), MessageType: []*descriptorpb.DescriptorProto{m},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return file.Messages().Get(0)
}

// The protobuf library reads what this package writes, and writes it again in the same bytes.
func TestMessagesAreProtobuf(t *testing.T) {
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) {
			desc := descriptorOf(t, name, kind.fields)
			rapid.Check(t, func(t *rapid.T) {
				m := kind.make()
				v := reflect.ValueOf(m).Elem()
				for i := range v.NumField() {
					draw(t, v.Field(i))
				}
				b := m.Append(nil)
				theirs := dynamicpb.NewMessage(desc)
				if err := proto.Unmarshal(b, theirs); err != nil {
					t.Fatal(err)
				}
				for i := range v.NumField() {
					if got := theirs.Get(desc.Fields().Get(i)).Interface(); !same(got, v.Field(i).Interface()) {
						t.Fatalf("field %d: %v, want %v", i+1, got, v.Field(i))
					}
				}
				again, err := proto.MarshalOptions{Deterministic: true}.Marshal(theirs)
				if err != nil || !bytes.Equal(again, b) {
					t.Fatalf("%x, %v; want %x", again, err, b)
				}
				back := kind.make()
				if err := back.Parse(append(b, 0xf8, 0x3f, 1)); err != nil || !bytes.Equal(back.Append(nil), b) {
					t.Fatalf("with an unknown field: %+v, %v", back, err)
				}
			})
		})
	}
}

func draw(t *rapid.T, v reflect.Value) {
	switch v.Interface().(type) {
	case string:
		v.SetString(rapid.String().Draw(t, "text"))
	case []byte:
		v.SetBytes(rapid.SliceOfN(rapid.Byte(), 1, 30).Draw(t, "bytes"))
	case uint32:
		v.SetUint(uint64(rapid.Uint32().Draw(t, "number")))
	case bool:
		v.SetBool(rapid.Bool().Draw(t, "flag"))
	}
}

func same(a, b any) bool {
	if x, ok := a.([]byte); ok {
		return bytes.Equal(x, b.([]byte))
	}
	return a == b
}

func TestHead(t *testing.T) {
	b, err := frame.Append([]byte("before"), frame.KindPing, 7, nil)
	if err != nil || string(b) != "before\x00\x00\x00\x00\x05\x00\x00\x00\x07" {
		t.Fatalf("%q, %v", b, err)
	}
	b, err = frame.Append(nil, frame.KindMoved, 0, &frame.Moved{Leader: "a:1", Closing: true})
	if err != nil || string(b) != "\x00\x00\x00\x07\x07\x00\x00\x00\x00\x0a\x03a:1\x10\x01" {
		t.Fatalf("%q, %v", b, err)
	}
	var buf [frame.HeadBytes]byte
	if head, err := frame.ReadHead(bytes.NewReader(b), &buf); err != nil || head != (frame.Head{Length: 7, Kind: frame.KindMoved}) {
		t.Fatalf("%+v, %v", head, err)
	}
}

// A parser never panics, and what it accepts survives a second pass.
func FuzzParse(f *testing.F) {
	f.Add([]byte("\x0a\x03a:1\x10\x01"))
	f.Add((&frame.Request{Target: "/v1/jobs", Body: []byte("{}"), Key: "k", Prefer: "p"}).Append(nil))
	f.Add((&frame.Answer{Status: 200, Body: []byte("{}"), LSN: "1-1", Replayed: true}).Append(nil))
	f.Add((&frame.Hello{Version: 1, Agent: "n", InFlight: 2, BodyBytes: 3, PingMillis: 4}).Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		for name, kind := range kinds {
			m, again := kind.make(), kind.make()
			if m.Parse(b) != nil {
				continue
			}
			if err := again.Parse(m.Append(nil)); err != nil || !bytes.Equal(m.Append(nil), again.Append(nil)) {
				t.Errorf("%s: %+v became %+v, %v", name, m, again, err)
			}
		}
	})
}
