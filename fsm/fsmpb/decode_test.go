package fsmpb_test

import (
	"bytes"
	"testing"

	"google.golang.org/protobuf/proto"

	"osqueue/fsm/fsmpb"
)

// FuzzDecode holds Decode against the generated decoder.
func FuzzDecode(f *testing.F) {
	limit := int32(4)
	job := func(id string) *fsmpb.NewJob {
		return &fsmpb.NewJob{Id: id, Type: "t", Payload: []byte("1"), MaxAttempts: &limit, Options: &fsmpb.Options{Tags: []string{"a"}}}
	}
	enqueue := func(e *fsmpb.Enqueue) *fsmpb.Mutation {
		return &fsmpb.Mutation{Op: &fsmpb.Mutation_Enqueue{Enqueue: e}}
	}
	plain := enqueue(&fsmpb.Enqueue{Jobs: []*fsmpb.NewJob{job("a")}})
	keyed := enqueue(&fsmpb.Enqueue{Jobs: []*fsmpb.NewJob{job("b")}})
	keyed.Request = &fsmpb.Request{Key: "k"}
	for _, ms := range [][]*fsmpb.Mutation{
		{plain},
		{plain, {Op: &fsmpb.Mutation_Claim{Claim: &fsmpb.Claim{Worker: "w"}}}, keyed, plain},
		{enqueue(&fsmpb.Enqueue{Jobs: []*fsmpb.NewJob{job("c"), job("d")}}), enqueue(&fsmpb.Enqueue{})},
		{enqueue(&fsmpb.Enqueue{Jobs: []*fsmpb.NewJob{job("e")}, NewBatch: &fsmpb.NewBatch{Id: "b"}}), plain},
	} {
		data, err := (&fsmpb.Batch{Version: 2, NowMs: 5, Random: 7, FlushedIndex: 9, Mutations: ms}).MarshalVT()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
		f.Add(append(bytes.Clone(data), data...))
		f.Add(data[:len(data)-1])
		f.Add(append(bytes.Clone(data), 0x7a, 1, 1)) // a field that is unknown
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var got, want fsmpb.Batch
		gotErr, wantErr := got.Decode(data), want.UnmarshalVTUnsafe(data)
		if (gotErr == nil) != (wantErr == nil) {
			t.Fatalf("error %v, want %v", gotErr, wantErr)
		}
		if wantErr == nil && !proto.Equal(&got, &want) {
			t.Fatalf("%v, want %v", &got, &want)
		}
		if wantErr == nil && fsmpb.HasUnknown(&got) != fsmpb.HasUnknown(&want) {
			t.Fatalf("unknown fields: %v, want %v", fsmpb.HasUnknown(&got), fsmpb.HasUnknown(&want))
		}
	})
}
