package transcript

import (
	"fmt"
	"sync"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
)

// field is a field of a message of osqueue.v1. Its number is its position.
type field struct {
	name     string
	kind     descriptorpb.FieldDescriptorProto_Type
	repeated bool
	optional bool   // presence is tracked
	message  string // the type of a message
}

const (
	kindText    = descriptorpb.FieldDescriptorProto_TYPE_STRING
	kindBytes   = descriptorpb.FieldDescriptorProto_TYPE_BYTES
	kindInt32   = descriptorpb.FieldDescriptorProto_TYPE_INT32
	kindInt64   = descriptorpb.FieldDescriptorProto_TYPE_INT64
	kindMessage = descriptorpb.FieldDescriptorProto_TYPE_MESSAGE
)

// messages are the messages of the recorded contract, defined here a second time so that a
// fault of the server's own definition is detected.
var messages = map[string][]field{
	"SubmitJobRequest": {
		{name: "payload", kind: kindBytes}, {name: "max_attempts", kind: kindInt32, optional: true}, {name: "type", kind: kindText},
	},
	"SubmitJobResponse": {{name: "job_id", kind: kindText}},
	"ClaimJobRequest":   {{name: "worker_id", kind: kindText}, {name: "types", kind: kindText, repeated: true}},
	"ClaimJobResponse": {
		{name: "job_id", kind: kindText, optional: true}, {name: "payload", kind: kindBytes, optional: true}, {name: "type", kind: kindText},
	},
	"HeartbeatRequest":    {{name: "job_id", kind: kindText}, {name: "worker_id", kind: kindText}},
	"HeartbeatResponse":   {},
	"CompleteJobRequest":  {{name: "job_id", kind: kindText}, {name: "worker_id", kind: kindText}},
	"CompleteJobResponse": {},
	"GetStatsRequest":     {},
	"GetStatsResponse": {
		{name: "total", kind: kindInt32},
		{name: "unclaimed", kind: kindInt32},
		{name: "in_progress", kind: kindInt32},
		{name: "broker_address", kind: kindText},
	},
	"ListJobsRequest": {},
	"ListJobsResponse": {
		{name: "jobs", kind: kindMessage, repeated: true, message: "JobInfo"},
		{name: "total", kind: kindInt32},
		{name: "unclaimed", kind: kindInt32},
		{name: "in_progress", kind: kindInt32},
		{name: "completed_total", kind: kindInt32},
		{name: "broker_address", kind: kindText},
	},
	"JobInfo": {
		{name: "id", kind: kindText},
		{name: "status", kind: kindText},
		{name: "payload", kind: kindBytes},
		{name: "type", kind: kindText},
		{name: "worker_id", kind: kindText},
		{name: "created_at", kind: kindInt64},
		{name: "attempts", kind: kindInt32},
		{name: "max_attempts", kind: kindInt32},
		{name: "heartbeat", kind: kindInt64},
	},
}

const protoPackage = "osqueue.v1"

// schema is the descriptor of messages.
var schema = sync.OnceValues(func() (protoreflect.FileDescriptor, error) {
	file := &descriptorpb.FileDescriptorProto{
		Name: proto.String("recorded.proto"), Package: proto.String(protoPackage), Syntax: proto.String("proto3"),
	}
	for name, fields := range messages {
		file.MessageType = append(file.MessageType, describeMessage(name, fields))
	}
	return protodesc.NewFile(file, nil)
})

func describeMessage(name string, fields []field) *descriptorpb.DescriptorProto {
	m := &descriptorpb.DescriptorProto{Name: proto.String(name)}
	for i, f := range fields {
		d := &descriptorpb.FieldDescriptorProto{
			Name: proto.String(f.name), Number: proto.Int32(int32(i + 1)), Type: f.kind.Enum(),
			Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(),
		}
		if f.repeated {
			d.Label = descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum()
		}
		if f.message != "" {
			d.TypeName = proto.String("." + protoPackage + "." + f.message)
		}
		if f.optional { // proto3 writes that as a oneof of one
			d.Proto3Optional, d.OneofIndex = proto.Bool(true), proto.Int32(int32(len(m.OneofDecl)))
			m.OneofDecl = append(m.OneofDecl, &descriptorpb.OneofDescriptorProto{Name: proto.String("_" + f.name)})
		}
		m.Field = append(m.Field, d)
	}
	return m
}

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
