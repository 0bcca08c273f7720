package seal

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/tink-crypto/tink-go/v2/aead"

	"osqueue/client"
)

// KEK is a key-encryption key, for example of a key management service; every
// tink.AEADWithContext is one. Its methods return soon after ctx ends and are safe for
// concurrent use. An error of DecryptWithContext counts as temporary, unless it wraps
// client.ErrTampered or client.ErrNoKey.
type KEK interface {
	// EncryptWithContext wraps a data key.
	EncryptWithContext(ctx context.Context, plaintext, associatedData []byte) ([]byte, error)
	// DecryptWithContext unwraps a data key.
	DecryptWithContext(ctx context.Context, ciphertext, associatedData []byte) ([]byte, error)
}

// New returns a Cipher whose data keys kek wraps. All programs that share jobs need the
// same scope, which must not be empty. Every text costs one call of kek.
func New(kek KEK, scope string) (client.Cipher, error) { return newEnvelope(kek, scope) }

// envelope encrypts with a new data key for every text.
type envelope struct {
	kek   KEK
	scope string
}

var errNoScope = errors.New("the scope is empty; give the name of the queue that shares the key")

func newEnvelope(kek KEK, scope string) (*envelope, error) {
	if scope == "" {
		return nil, errNoScope
	}
	return &envelope{kek: kek, scope: scope}, nil
}

// bind returns the associated data with the scope before it.
func (e *envelope) bind(associatedData []byte) []byte {
	out := binary.BigEndian.AppendUint32(nil, uint32(len(e.scope)))
	out = append(out, e.scope...)
	return append(out, associatedData...)
}

// EncryptWithContext encrypts with a new data key.
func (e *envelope) EncryptWithContext(ctx context.Context, plaintext, associatedData []byte) ([]byte, error) {
	tink, err := aead.NewKMSEnvelopeAEADWithContext(aead.AES256GCMKeyTemplate(), e.kek)
	if err != nil {
		return nil, err
	}
	return tink.EncryptWithContext(ctx, plaintext, e.bind(associatedData))
}

// DecryptWithContext decrypts. If the key-encryption key unwraps the data key, and the text
// does not fit it, the error wraps client.ErrTampered.
func (e *envelope) DecryptWithContext(ctx context.Context, ciphertext, associatedData []byte) ([]byte, error) {
	asked := &witness{KEK: e.kek}
	tink, err := aead.NewKMSEnvelopeAEADWithContext(aead.AES256GCMKeyTemplate(), asked)
	if err != nil {
		return nil, err
	}
	plain, err := tink.DecryptWithContext(ctx, ciphertext, e.bind(associatedData))
	switch {
	case err == nil:
		return plain, nil
	case asked.err != nil:
		return nil, asked.err
	}
	return nil, fmt.Errorf("%w (%w)", client.ErrTampered, err)
}

// witness keeps the error of a KEK, to distinguish it from a wrong text.
type witness struct {
	KEK
	err error
}

// DecryptWithContext unwraps a data key.
func (w *witness) DecryptWithContext(ctx context.Context, wrapped, associatedData []byte) ([]byte, error) {
	plain, err := w.KEK.DecryptWithContext(ctx, wrapped, associatedData)
	w.err = err
	return plain, err
}
