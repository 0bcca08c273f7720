package dtq

import (
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// In dtq the type of a task and the name of a worker can be any JSON value; in the queue
// they are printable text that fits into a path. Printable text is kept as it is, so
// that clients of both systems use the same name. Any other value is encoded as JSON
// behind a prefix and decoded from there.

const jsonName = "json:"

// nameOf returns the queue's name for v.
func nameOf(v jsontext.Value) string {
	if text, ok := textOf(v); ok {
		if standsForItself(text) {
			return text
		}
		return jsonName + ascii(string(quote(text)))
	}
	compact := v.Clone()
	if err := compact.Compact(lenient); err != nil {
		return jsonName + "null" // cannot happen: v was decoded as JSON
	}
	return jsonName + ascii(string(compact))
}

func quote(text string) jsontext.Value {
	v, err := json.Marshal(text, lenient)
	if err != nil {
		return jsontext.Value(`""`) // cannot happen: lenient accepts any bytes
	}
	return v
}

// valueOf is the inverse of nameOf. A name that nameOf cannot have returned is text.
func valueOf(name string) jsontext.Value {
	if rest, ok := strings.CutPrefix(name, jsonName); ok {
		if v := jsontext.Value(rest); v.IsValid(lenient) && nameOf(v) == name {
			return v
		}
	}
	return quote(name)
}

// typeOf returns the queue's type for a task_type, "" if it is null.
func typeOf(v jsontext.Value) string {
	if v.Kind() == 'n' {
		return ""
	}
	return nameOf(v)
}

// taskTypeOf is the inverse of typeOf.
func taskTypeOf(jobType string) jsontext.Value {
	if jobType == "" {
		return jsontext.Value("null")
	}
	return valueOf(jobType)
}

func standsForItself(text string) bool {
	switch {
	case text == "", text == ".", text == "..", strings.HasPrefix(text, jsonName):
		return false
	}
	return !strings.ContainsFunc(text, func(r rune) bool { return r == utf8.RuneError || unicode.IsControl(r) })
}

// ascii escapes all characters of a JSON text that are not ASCII. Valid JSON has them
// only inside strings.
func ascii(text string) string {
	const lastASCII = 0x7e
	if strings.IndexFunc(text, func(r rune) bool { return r > lastASCII }) < 0 {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		switch high, low := utf16.EncodeRune(r); {
		case r <= lastASCII:
			b.WriteRune(r)
		case high != utf8.RuneError:
			escape(&b, high)
			escape(&b, low)
		default:
			escape(&b, r)
		}
	}
	return b.String()
}

func escape(b *strings.Builder, r rune) {
	const hex = "0123456789abcdef"
	b.WriteString(`\u`)
	for shift := 12; shift >= 0; shift -= 4 {
		b.WriteByte(hex[r>>shift&0xf])
	}
}
