package frame

import (
	"google.golang.org/protobuf/encoding/protowire"
)

// field is one field of a message: a number, or bytes.
type field struct {
	kind  protowire.Type
	value uint64
	bytes []byte
}

// fields calls use for every field of the message b that is a number or bytes. It skips the
// others.
func fields(b []byte, use func(protowire.Number, field)) error {
	for len(b) > 0 {
		num, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return protowire.ParseError(n)
		}
		b = b[n:]
		f := field{kind: kind}
		switch kind {
		case protowire.VarintType:
			f.value, n = protowire.ConsumeVarint(b)
		case protowire.BytesType:
			f.bytes, n = protowire.ConsumeBytes(b)
		default:
			n = protowire.ConsumeFieldValue(num, kind, b)
		}
		if n < 0 {
			return protowire.ParseError(n)
		}
		use(num, f)
		b = b[n:]
	}
	return nil
}

// toUint, toBool, toText and toBytes set a value from a field of their type. A field of another type
// counts as unknown.
func (f field) toUint(to *uint32) {
	if f.kind == protowire.VarintType {
		*to = uint32(f.value)
	}
}

func (f field) toBool(to *bool) {
	if f.kind == protowire.VarintType {
		*to = f.value != 0
	}
}

func (f field) toText(to *string) {
	if f.kind == protowire.BytesType {
		*to = textOf(f.bytes)
	}
}

// textOf returns b as text. The texts of the busiest requests need no memory of their own.
func textOf(b []byte) string {
	switch string(b) {
	case "/v1/jobs":
		return "/v1/jobs"
	case "/v1/jobs/batch":
		return "/v1/jobs/batch"
	case "/v1/jobs/claim":
		return "/v1/jobs/claim"
	case "handling=strict":
		return "handling=strict"
	}
	return string(b)
}

func (f field) toBytes(to *[]byte) {
	if f.kind == protowire.BytesType {
		*to = f.bytes
	}
}

// appendUint, appendBool, appendText and appendBytes append a field unless it has the zero value.
func appendUint(b []byte, num protowire.Number, v uint32) []byte {
	if v == 0 {
		return b
	}
	return protowire.AppendVarint(protowire.AppendTag(b, num, protowire.VarintType), uint64(v))
}

func appendBool(b []byte, num protowire.Number, v bool) []byte {
	if !v {
		return b
	}
	return protowire.AppendVarint(protowire.AppendTag(b, num, protowire.VarintType), 1)
}

func appendText(b []byte, num protowire.Number, v string) []byte {
	if v == "" {
		return b
	}
	return protowire.AppendString(protowire.AppendTag(b, num, protowire.BytesType), v)
}

func appendBytes(b []byte, num protowire.Number, v []byte) []byte {
	if len(v) == 0 {
		return b
	}
	return protowire.AppendBytes(protowire.AppendTag(b, num, protowire.BytesType), v)
}
