package oidc

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// registered are the claims of RFC 7519 that decide whether a JWT is valid. All but the texts are numbers.
var (
	registered = []string{"exp", "nbf", "iat", "iss", "aud", "sub"}
	numbers    = registered[:3]
)

// checkClaims returns an error if the claims of a JWT can be read in two ways: a name that occurs twice, a
// registered name in other letters, which package json takes for the registered one, or a time that is no number. A
// provider that lets users add claims would let them replace these.
func checkClaims(jwt string) error {
	parts := strings.Split(jwt, ".")
	if len(parts) != 3 {
		return errors.New("it is malformed")
	}
	claims, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return errors.New("it is malformed")
	}
	d := jsontext.NewDecoder(bytes.NewReader(claims)) // which refuses a name that occurs twice
	if t, err := d.ReadToken(); err != nil || t.Kind() != '{' {
		return errors.New("its claims are no JSON object")
	}
	for d.PeekKind() != '}' {
		t, err := d.ReadToken()
		if err != nil {
			return fmt.Errorf("its claims are not valid: %w", err)
		}
		name := t.String()
		value, err := d.ReadValue()
		if err != nil {
			return fmt.Errorf("its claims are not valid: %w", err)
		}
		i := slices.IndexFunc(registered, func(one string) bool { return strings.EqualFold(one, name) })
		switch {
		case i >= 0 && registered[i] != name:
			return fmt.Errorf("the claim %q would be taken for %s", name, registered[i])
		case slices.Contains(numbers, name) && value.Kind() != '0':
			return fmt.Errorf("%s must be a number", name)
		}
	}
	return nil
}
