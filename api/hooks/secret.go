package hooks

import (
	"bytes"
	"cmp"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
)

// Keys seal the secrets of hooks in the state. All nodes have the same. The zero Keys seal
// nothing: the state has the secrets in clear.
type Keys struct {
	primary string // id of the key that seals
	all     map[string]cipher.AEAD
}

// keyFileMax bounds a key file, in bytes.
const keyFileMax = 64 << 10

var (
	errKeyFile = errors.New("write keys of 32 bytes in Base64, one a line; the first one seals, all open (make one with: openssl rand -base64 32)")
	errNoKey   = errors.New("the secret of the hook is sealed with a key that this node does not have (--hook-key-file)")
	errSealed  = errors.New("the secret of the hook cannot be opened: it is damaged")
)

// LoadKeys reads a key file; "" is no file.
func LoadKeys(path string) (*Keys, error) {
	if path == "" {
		return &Keys{}, nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("--hook-key-file: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 || info.Size() > keyFileMax {
		return nil, fmt.Errorf("--hook-key-file %s: its mode is %v and its size %d; make it readable by its owner only (chmod 600)", path, info.Mode().Perm(), info.Size())
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("--hook-key-file: %w", err)
	}
	k, err := parseKeys(data)
	if err != nil {
		return nil, fmt.Errorf("--hook-key-file %s: %w", path, err)
	}
	return k, nil
}

func parseKeys(data []byte) (*Keys, error) {
	k := &Keys{all: make(map[string]cipher.AEAD)}
	for line := range bytes.Lines(data) {
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		key, err := base64.StdEncoding.DecodeString(string(line))
		if err != nil || len(key) != 32 {
			return nil, errKeyFile
		}
		block, err := aes.NewCipher(key)
		if err != nil {
			return nil, errKeyFile
		}
		aead, err := cipher.NewGCMWithRandomNonce(block)
		if err != nil {
			return nil, errKeyFile
		}
		sum := sha256.Sum256(append([]byte("osqueue hook key\n"), key...))
		id := hex.EncodeToString(sum[:6])
		k.primary = cmp.Or(k.primary, id)
		k.all[id] = aead
	}
	if k.primary == "" {
		return nil, errKeyFile
	}
	return k, nil
}

// Seal returns a secret as the state has it, and the id of the key; "": it is not sealed. It is bound to the
// name of its hook.
func (k *Keys) Seal(hook string, secret []byte) (sealed []byte, keyID string) {
	if k.primary == "" {
		return secret, ""
	}
	return k.all[k.primary].Seal(nil, nil, secret, []byte(hook)), k.primary //nolint:gosec // this AEAD makes its own nonce
}

// Open returns the secret that Seal was given.
func (k *Keys) Open(hook string, sealed []byte, keyID string) ([]byte, error) {
	if keyID == "" {
		return sealed, nil
	}
	aead := k.all[keyID]
	if aead == nil {
		return nil, fmt.Errorf("%w: key %s", errNoKey, keyID)
	}
	secret, err := aead.Open(nil, nil, sealed, []byte(hook))
	if err != nil {
		return nil, errSealed
	}
	return secret, nil
}

// random returns a random number below n; 0 if n is not positive.
func random(n int64) int64 {
	if n <= 0 {
		return 0
	}
	var b [8]byte
	_, _ = rand.Read(b[:]) // it never fails
	var u uint64
	for _, c := range b {
		u = u<<8 | uint64(c)
	}
	return int64(u % uint64(n))
}
