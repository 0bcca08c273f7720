package seal

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/tink-crypto/tink-go/v2/tink"

	"osqueue/client"
)

// The intervals at which a ring looks at its file.
const (
	lookEvery   = 10 * time.Second // while it is in use
	lookAgainIn = time.Second      // when it meets an unknown key
)

// A Ring is a Cipher with the keys of a file. It is safe for concurrent use.
type Ring struct {
	path string
	*envelope
	keys *ringKeys
}

// OpenRing reads the key ring in a file that only its owner can read.
func OpenRing(path string) (*Ring, error) {
	f, stamp, err := load(path)
	if err != nil {
		return nil, err
	}
	primitive, err := f.primitive()
	if err != nil {
		return nil, fmt.Errorf("key ring %s: %w", path, err)
	}
	keys := &ringKeys{path: path, scope: f.Scope, aead: primitive, ids: f.ids(), stamp: stamp, looked: time.Now()}
	e, err := newEnvelope(keys, f.Scope)
	if err != nil {
		return nil, fmt.Errorf("key ring %s: %w", path, err)
	}
	return &Ring{path: path, envelope: e, keys: keys}, nil
}

// Path returns the path of the file.
func (r *Ring) Path() string { return r.path }

// ringKeys is the KEK of a Ring.
type ringKeys struct {
	path  string
	scope string

	mu     sync.Mutex
	aead   tink.AEAD
	ids    map[uint32]bool
	stamp  stamp
	looked time.Time
	fault  error // of the last look; nil: the keys are those of the file
}

// stamp identifies a version of the file.
type stamp struct {
	size     int64
	modified time.Time
}

func stampOf(info os.FileInfo) stamp { return stamp{info.Size(), info.ModTime()} }

// current returns the keys, after a look at the file if the last one is older than age.
func (k *ringKeys) current(age time.Duration) (tink.AEAD, map[uint32]bool, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if time.Since(k.looked) >= age {
		k.looked = time.Now()
		k.fault = k.look()
	}
	return k.aead, k.ids, k.fault
}

var errScope = errors.New("its scope has changed: it is another ring; restart the program if that is meant")

// look reads the file again if it has changed. The caller holds the lock.
func (k *ringKeys) look() error {
	info, err := os.Stat(k.path)
	if err != nil {
		return err
	}
	if stampOf(info) == k.stamp && k.fault == nil {
		return nil
	}
	f, stamp, err := load(k.path)
	if err != nil {
		return err
	}
	if f.Scope != k.scope {
		return fmt.Errorf("key ring %s: %w", k.path, errScope)
	}
	primitive, err := f.primitive()
	if err != nil {
		return fmt.Errorf("key ring %s: %w", k.path, err)
	}
	k.aead, k.ids, k.stamp = primitive, f.ids(), stamp
	return nil
}

// EncryptWithContext wraps a data key with the primary key.
func (k *ringKeys) EncryptWithContext(_ context.Context, plaintext, associatedData []byte) ([]byte, error) {
	primitive, _, _ := k.current(lookEvery) // the keys from before stay good if the file cannot be read
	return primitive.Encrypt(plaintext, associatedData)
}

// DecryptWithContext unwraps a data key with the key that it names.
func (k *ringKeys) DecryptWithContext(_ context.Context, wrapped, associatedData []byte) ([]byte, error) {
	id, ok := keyOf(wrapped)
	if !ok {
		return nil, client.ErrTampered
	}
	primitive, ids, fault := k.current(lookEvery)
	if !ids[id] {
		primitive, ids, fault = k.current(lookAgainIn)
	}
	switch {
	case !ids[id] && fault != nil:
		return nil, fmt.Errorf("%w: key %d is not in %s, which cannot be read again: %w", client.ErrNoKey, id, k.path, fault)
	case !ids[id]:
		return nil, fmt.Errorf("%w: key %d is not in %s; add it there, or retry the job when it is", client.ErrNoKey, id, k.path)
	}
	plain, err := primitive.Decrypt(wrapped, associatedData)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", client.ErrTampered, err)
	}
	return plain, nil
}

// keyOf returns the id of the key in the prefix that Tink gives to a ciphertext.
func keyOf(ciphertext []byte) (id uint32, ok bool) {
	const prefix, length = 1, 5
	if len(ciphertext) < length || ciphertext[0] != prefix {
		return 0, false
	}
	return binary.BigEndian.Uint32(ciphertext[1:length]), true
}
