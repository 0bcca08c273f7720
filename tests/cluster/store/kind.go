package store

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// Kind is a kind of store.
type Kind string

// The stores.
const (
	GoFakeS3  Kind = "gofakes3"
	VersityGW Kind = "versitygw"
	GCS       Kind = "gcs"
	File      Kind = "file"
)

// Kinds are all of them.
var Kinds = []Kind{GoFakeS3, VersityGW, GCS, File}

// Env names the environment variable that chooses the store.
const Env = "OSQUEUE_TEST_STORE"

// Chosen returns the kind that the environment selects.
func Chosen() (Kind, error) { return parseKind(os.Getenv(Env)) }

func parseKind(s string) (Kind, error) {
	k := Kind(s)
	switch {
	case s == "":
		return GoFakeS3, nil
	case slices.Contains(Kinds, k):
		return k, nil
	}
	names := make([]string, len(Kinds))
	for i, k := range Kinds {
		names[i] = string(k)
	}
	return "", fmt.Errorf("%s is %q; the stores are %s", Env, s, strings.Join(names, ", "))
}
