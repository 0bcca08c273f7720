package transcript

import (
	_ "embed" // of the contract
	"errors"
	"fmt"
	"sync"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
)

// protoPackage is the package of the recorded contract.
const protoPackage = "osqueue.v1"

//go:embed recorded.txtpb
var contract []byte

// schema is the descriptor of the recorded contract.
var schema = sync.OnceValues(func() (protoreflect.FileDescriptor, error) {
	file := new(descriptorpb.FileDescriptorProto)
	if err := prototext.Unmarshal(contract, file); err != nil {
		return nil, err
	}
	return protodesc.NewFile(file, nil)
})

func messageType(name string) (protoreflect.MessageDescriptor, error) {
	file, err := schema()
	if err != nil {
		return nil, err
	}
	d := file.Messages().ByName(protoreflect.Name(name))
	if d == nil {
		return nil, fmt.Errorf("the message %q is not known", name)
	}
	return d, nil
}

// EncodeMessage returns the bytes of a message whose fields are given in JSON.
func EncodeMessage(name string, fields any) ([]byte, error) {
	d, err := messageType(name)
	if err != nil {
		return nil, err
	}
	m := dynamicpb.NewMessage(d)
	if err := protojson.Unmarshal(Encode(fields), m); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return proto.MarshalOptions{Deterministic: true}.Marshal(m)
}

// DecodeMessage returns the fields of a message in JSON: names in lowerCamel, bytes in
// Base64, int64 as text, defaults left out. A field that the contract does not have
// is an error.
func DecodeMessage(name string, data []byte) (any, error) {
	d, err := messageType(name)
	if err != nil {
		return nil, err
	}
	m := dynamicpb.NewMessage(d)
	if err := proto.Unmarshal(data, m); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if err := noUnknown(m.ProtoReflect()); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	text, err := protojson.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return Decode(text)
}

// noUnknown refuses fields that the descriptor does not have, at any depth.
func noUnknown(m protoreflect.Message) error {
	if len(m.GetUnknown()) > 0 {
		return fmt.Errorf("%s has a field that is not known", m.Descriptor().Name())
	}
	var err error
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		if f.IsList() && f.Message() != nil { // there are no single ones
			for i := range v.List().Len() {
				err = errors.Join(err, noUnknown(v.List().Get(i).Message()))
			}
		}
		return true
	})
	return err
}

// ReadMessageJSON checks that a text is the JSON form of a message, as leniently as the
// recorded clients read it, and returns its fields in the strict form.
func ReadMessageJSON(name string, data []byte) (any, error) {
	d, err := messageType(name)
	if err != nil {
		return nil, err
	}
	m := dynamicpb.NewMessage(d)
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(data, m); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	text, err := protojson.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return Decode(text)
}
