package frame

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// fields are pointers to the fields of a message, by their numbers from 1: *uint32, *bool, *string or
// *[]byte; nil is no field.
type fields [6]any

// appendTo appends the fields that do not have the zero value.
func (list fields) appendTo(b []byte) []byte {
	for i, of := range list {
		num := protowire.Number(i + 1)
		switch of := of.(type) {
		case *uint32:
			b = appendNumber(b, num, uint64(*of))
		case *bool:
			b = appendNumber(b, num, protowire.EncodeBool(*of))
		case *string:
			if *of != "" {
				b = protowire.AppendString(protowire.AppendTag(b, num, protowire.BytesType), *of)
			}
		case *[]byte:
			if len(*of) > 0 {
				b = protowire.AppendBytes(protowire.AppendTag(b, num, protowire.BytesType), *of)
			}
		}
	}
	return b
}

func appendNumber(b []byte, num protowire.Number, v uint64) []byte {
	if v == 0 {
		return b
	}
	return protowire.AppendVarint(protowire.AppendTag(b, num, protowire.VarintType), v)
}

// parse sets the fields from the body b of a message, which is named for errors. It skips unknown fields, and
// known ones with another type.
func (list fields) parse(message string, b []byte) error {
	for len(b) > 0 {
		num, kind, n := protowire.ConsumeTag(b)
		var number uint64
		var bytes []byte
		if n >= 0 {
			b = b[n:]
			switch kind {
			case protowire.VarintType:
				number, n = protowire.ConsumeVarint(b)
			case protowire.BytesType:
				bytes, n = protowire.ConsumeBytes(b)
			default:
				n = protowire.ConsumeFieldValue(num, kind, b)
			}
		}
		if n < 0 {
			return fmt.Errorf("decode a frame: the body is not a valid %s: %w", message, protowire.ParseError(n))
		}
		b = b[n:]
		if int(num) > len(list) {
			continue
		}
		switch to := list[num-1].(type) {
		case *uint32:
			if kind == protowire.VarintType {
				*to = uint32(number)
			}
		case *bool:
			if kind == protowire.VarintType {
				*to = number != 0
			}
		case *string:
			if kind == protowire.BytesType {
				*to = textOf(bytes)
			}
		case *[]byte:
			if kind == protowire.BytesType {
				*to = bytes
			}
		}
	}
	return nil
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
