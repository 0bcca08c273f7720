package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	v1 "osqueue/client/api/v1"
)

// messages are the objects of the contract that have codecs.
var messages = []v1.Message{
	&v1.NewJob{}, &v1.OnError{}, &v1.Backoff{}, &v1.Enqueued{}, &v1.Batch{}, &v1.BatchEnqueued{}, &v1.Progress{}, &v1.Claim{}, &v1.Claimed{},
	&v1.ClaimedJob{}, &v1.Parent{}, &v1.Step{}, &v1.Signal{}, &v1.Heartbeat{}, &v1.Complete{}, &v1.NextClaim{}, &v1.Fail{}, &v1.Release{}, &v1.Reported{}, &v1.Lease{},
	&v1.HeartbeatBatch{}, &v1.CompleteLease{}, &v1.CompleteBatch{}, &v1.FailLease{}, &v1.FailBatch{}, &v1.ReleaseLease{},
	&v1.ReleaseBatch{}, &v1.ReportedBatch{}, &v1.ReportedItem{},
	&v1.NamedArtefact{},
}

const (
	fieldText   = descriptorpb.FieldDescriptorProto_TYPE_STRING
	fieldObject = descriptorpb.FieldDescriptorProto_TYPE_MESSAGE
	repeated    = descriptorpb.FieldDescriptorProto_LABEL_REPEATED
)

var fieldTypes = map[string]descriptorpb.FieldDescriptorProto_Type{
	"string": fieldText, "bool": descriptorpb.FieldDescriptorProto_TYPE_BOOL,
	"int32": descriptorpb.FieldDescriptorProto_TYPE_INT32, "int64": descriptorpb.FieldDescriptorProto_TYPE_INT64,
	"uint8": descriptorpb.FieldDescriptorProto_TYPE_UINT32, "uint64": descriptorpb.FieldDescriptorProto_TYPE_UINT64,
	"json.RawMessage": descriptorpb.FieldDescriptorProto_TYPE_BYTES,
}

// fieldOf describes a property for the protobuf library. entry is the type of the items of a map.
func (g *generator) fieldOf(of string, p named[schema]) (f *descriptorpb.FieldDescriptorProto, entry *descriptorpb.DescriptorProto) {
	f = &descriptorpb.FieldDescriptorProto{
		Name: proto.String(p.name), JsonName: proto.String(p.name), Number: proto.Int32(int32(p.of.Field)),
		Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(),
	}
	goType := g.goType(&p.of)
	item, many := strings.CutPrefix(goType, "[]")
	if many {
		f.Label = repeated.Enum()
	}
	object, _ := g.inner(&p.of)
	switch {
	case object != "":
		f.Type, f.TypeName = fieldObject.Enum(), proto.String(".v1."+object)
	case goType == "map[string]string":
		name := strings.ToUpper(p.name[:1]) + p.name[1:] + "Entry"
		part := func(name string, number int32) *descriptorpb.FieldDescriptorProto {
			return &descriptorpb.FieldDescriptorProto{
				Name: &name, Number: &number, Type: fieldText.Enum(), Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(),
			}
		}
		f.Type, f.TypeName, f.Label = fieldObject.Enum(), proto.String(".v1."+of+"."+name), repeated.Enum()
		entry = &descriptorpb.DescriptorProto{
			Name: &name, Field: []*descriptorpb.FieldDescriptorProto{part("key", 1), part("value", 2)},
			Options: &descriptorpb.MessageOptions{MapEntry: proto.Bool(true)},
		}
	default:
		f.Type = fieldTypes[item].Enum()
	}
	return f, entry
}

// describe returns the objects with codecs for the protobuf library.
func describe(t *testing.T) protoreflect.MessageDescriptors {
	source, err := os.ReadFile(filepath.Join("..", "..", contract))
	if err != nil {
		t.Fatal(err)
	}
	var document struct {
		Components struct{ Schemas list[schema] }
	}
	if err := yaml.Unmarshal(source, &document); err != nil {
		t.Fatal(err)
	}
	g := &generator{schemas: document.Components.Schemas}
	file := &descriptorpb.FileDescriptorProto{Name: proto.String("v1.proto"), Package: proto.String("v1"), Syntax: proto.String("proto3")}
	for _, s := range g.schemas {
		m := &descriptorpb.DescriptorProto{Name: proto.String(s.name)}
		for _, p := range s.of.Properties {
			if p.of.Field == 0 {
				continue
			}
			f, entry := g.fieldOf(s.name, p)
			m.Field = append(m.Field, f)
			if entry != nil {
				m.NestedType = append(m.NestedType, entry)
			}
		}
		if len(m.Field) > 0 {
			file.MessageType = append(file.MessageType, m)
		}
	}
	out, err := protodesc.NewFile(file, nil)
	if err != nil || g.err != nil {
		t.Fatal(err, g.err)
	}
	return out.Messages()
}

// fill sets every field that a value has.
func fill(v reflect.Value, seed int) {
	switch v.Interface().(type) {
	case json.RawMessage:
		v.SetBytes([]byte(`{"a": 1}`))
		return
	case map[string]string:
		v.Set(reflect.ValueOf(map[string]string{"b": "2", "a": "1"}))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(strings.Repeat("é", seed*40))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int32, reflect.Int64:
		v.SetInt(int64(seed) * -77_777)
	case reflect.Uint8, reflect.Uint64:
		v.SetUint(uint64(seed) * 50)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), seed)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(v.Index(0), 1)
		fill(v.Index(1), 3)
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), seed+i%3)
		}
	}
}

// The protobuf library reads what the codecs write, with the numbers and types of the contract, and the codecs read what
// it writes.
func TestCodecsAreProtobuf(t *testing.T) {
	all := describe(t)
	if all.Len() != len(messages) {
		t.Errorf("%d objects have codecs, and %d are tested", all.Len(), len(messages))
	}
	for _, m := range messages {
		name := reflect.TypeOf(m).Elem().Name()
		fill(reflect.ValueOf(m).Elem(), 1)
		b, err := m.AppendProto(nil)
		if err != nil {
			t.Fatal(name, err)
		}
		theirs := dynamicpb.NewMessage(all.ByName(protoreflect.Name(name)))
		if err := (proto.UnmarshalOptions{}).Unmarshal(b, theirs); err != nil {
			t.Fatal(name, err)
		}
		for i := range theirs.Descriptor().Fields().Len() {
			if f := theirs.Descriptor().Fields().Get(i); !theirs.Has(f) {
				t.Errorf("%s: the field %s is not there", name, f.Name())
			}
		}
		again, err := proto.MarshalOptions{Deterministic: true}.Marshal(theirs)
		if err != nil || len(again) != len(b) {
			t.Errorf("%s: %d bytes became %d, %v", name, len(b), len(again), err)
		}
		back := reflect.New(reflect.TypeOf(m).Elem()).Interface().(v1.Message)
		if err := back.ParseProto(again, 9); err != nil || !reflect.DeepEqual(back, m) {
			t.Errorf("%s: %+v became %+v, %v", name, m, back, err)
		}
	}
}

func TestCodecsAreRefused(t *testing.T) {
	for schema, want := range map[string]string{
		`A: {type: object, description: A is, properties: {b: {x-field: 1, type: string}, c: {type: string}}}`:                                                                       "A.c has no x-field",
		`A: {type: object, description: A is, properties: {b: {x-field: 1, type: string}, c: {x-field: 1, type: string}}}`:                                                           "A.c has the x-field of b",
		`A: {type: object, description: A is, properties: {b: {x-field: 1, type: number}}}`:                                                                                          "no codec for b, a float64",
		`A: {type: object, description: A is, allOf: [{$ref: "#/components/schemas/A"}], properties: {b: {x-field: 1, type: string}}}`:                                               "A embeds another object",
		`A: {type: object, description: A is, properties: {b: {x-field: 1, type: array, items: {$ref: "#/components/schemas/A"}}}}`:                                                  "b is a list of objects with codecs and has no maxItems",
		`A: {type: object, description: A is, properties: {b: {x-field: 1, $ref: "#/components/schemas/B"}}}, B: {type: object, description: B is, properties: {c: {type: string}}}`: "B is in an object with codecs and has none",
	} {
		if _, err := generate([]byte("components: {schemas: {" + schema + "}}")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", schema, err, want)
		}
	}
}
