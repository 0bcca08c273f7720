// Package frame encodes and decodes the frames of the stream protocol, which docs/stream.md
// specifies. Both sides use it: the server in api/stream, and the Go client.
//
// A frame is a head of HeadBytes bytes and a body, which is a protobuf message. The id of a
// request is in the head, so that a reader can refuse, discard or pass on a frame without
// its body. The messages are four flat lists of fields (fields), which protowire encodes: generated code would bring the
// reflection of the protobuf library into each program with the client, and a message that cannot be copied. The tests
// compare the result with the protobuf library.
//
// The body of a request or an answer is a field with bytes: a v1.Message in protobuf, or the JSON of the HTTP API. The field
// Proto says which.
//
// Decoding never panics and never allocates more than the length of its input. A decoder skips
// fields that it does not know, so that later versions can add some. A message that it
// returns refers to the memory of its input.
package frame
