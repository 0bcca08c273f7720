package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestWireTypesAreCurrent(t *testing.T) {
	read := func(name string) []byte {
		text, err := os.ReadFile(filepath.Join("..", "..", name))
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	want, err := generate(read(contract))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(read(output), want) {
		t.Errorf("%s is not what %s says: run `make generate`", output, contract)
	}
}

func TestGenerateRefuses(t *testing.T) {
	for schema, want := range map[string]string{
		`A: {type: object, description: Of b}`:                                                    "does not begin with its name",
		`A: {type: object, description: A is, required: [b]}`:                                     "b is required and not described",
		`A: {type: object, description: A is, properties: {b: {$ref: "#/components/schemas/C"}}}`: "#/components/schemas/C does not exist",
		`A: {type: object, description: A is, properties: {b: {type: text}}}`:                     "no Go type for [text]",
		`A: {type: object, description: A is, properties: {b: {type: integer, format: big int}}}`: "expected",
	} {
		_, err := generate([]byte("components: {schemas: {" + schema + "}}"))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", schema, err, want)
		}
	}
}
