package view

import (
	"errors"
	"io/fs"

	"github.com/spf13/pflag"

	"osqueue/client"
	"osqueue/client/seal"
)

// keyFlags are the flags for encrypted payloads.
type keyFlags struct {
	file string
	only bool
	ring *seal.Ring // of file, once it is read
}

func (f *keyFlags) bind(flags *pflag.FlagSet, getenv func(string) string) {
	flags.StringVar(&f.file, "keys", getenv("OSQUEUE_KEYS"),
		"key ring that encrypts payloads, results, errors and logs, and decrypts them (osqueue key; environment: OSQUEUE_KEYS)")
	flags.BoolVar(&f.only, "sealed-only", getenv("OSQUEUE_SEALED_ONLY") == "true",
		"refuse payloads and results that are not encrypted (environment: OSQUEUE_SEALED_ONLY=true)")
}

// cipher returns the key ring of the flags, or nil.
func (f *keyFlags) cipher() (client.Cipher, error) {
	switch {
	case f.file == "" && f.only:
		return nil, Usagef("--sealed-only: give the key ring with --keys")
	case f.file == "":
		return nil, nil
	case f.ring != nil:
		return f.ring, nil
	}
	ring, err := seal.OpenRing(f.file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, Usagef("--keys: %w; osqueue key create makes one", err)
	}
	if err != nil {
		return nil, Usagef("--keys: %w", err)
	}
	f.ring = ring
	return ring, nil
}

// Cipher returns the key ring of --keys, or nil.
func (g *Globals) Cipher() (client.Cipher, error) { return g.keys.cipher() }

// KeyFile returns the path of --keys, or "".
func (g *Globals) KeyFile() string { return g.keys.file }

// MaxBatchBytes returns the size of the jobs that the command line puts into one batch. It
// leaves space for the request around them, and for the growth of encrypted payloads.
func (g *Globals) MaxBatchBytes() int {
	const most = client.MaxBatchBytes - 4096
	if g.keys.file != "" {
		return most * 7 / 10 // of base64
	}
	return most
}
