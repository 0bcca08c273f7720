package seal

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/tink-crypto/tink-go/v2/streamingaead/subtle"

	"osqueue/client"
	wire "osqueue/client/internal/envelope"
)

// The sizes of a stream, in bytes.
const (
	chunkSize     = 64 << 10 // a chunk of ciphertext, with its tag; the first one includes the header
	keySize       = 32
	tagSize       = subtle.AESGCMHKDFTagSizeInBytes
	prefixSize    = subtle.AESGCMHKDFNoncePrefixSizeInBytes
	lengthSize    = 4                                 // of the length of the wrapped key
	tinkHeader    = 1 + keySize + prefixSize          // its own length, the salt, the prefix of the nonces
	maxWrappedKey = 8 << 10                           // far above those of key management services
	minStream     = lengthSize + tinkHeader + tagSize // with an empty key and an empty text
)

// NewWriter returns a writer that encrypts to w what is too large for one text. about names what the bytes
// belong to, for example the job and the name of an artefact: a reader needs the same. Close writes the end,
// without which no reader takes the stream for whole, and does not close w. Two streams of the same bytes
// differ: a program that sends a stream twice must keep it.
func NewWriter(ctx context.Context, with client.Cipher, w io.Writer, about ...string) (io.WriteCloser, error) {
	key := make([]byte, keySize)
	rand.Read(key) // never fails
	wrapped, err := with.EncryptWithContext(ctx, key, binding(about))
	if err != nil {
		return nil, fmt.Errorf("encrypt the key of a stream: %w", err)
	}
	if len(wrapped) > maxWrappedKey {
		return nil, fmt.Errorf("the encrypted key of a stream has %d bytes: must be at most %d", len(wrapped), maxWrappedKey)
	}
	head := append(binary.BigEndian.AppendUint32(nil, uint32(len(wrapped))), wrapped...)
	chunks, err := subtle.NewAESGCMHKDF(key, "SHA256", keySize, chunkSize, len(head))
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(head); err != nil {
		return nil, err
	}
	return chunks.NewEncryptingWriter(w, nil)
}

func binding(about []string) []byte {
	return wire.Bind(append([]string{wire.KindBlob}, about...)...)
}

// Opener opens the ciphertext of a stream at an offset, up to its end.
type Opener func(offset int64) (io.ReadCloser, error)

// SealStream implements client.StreamCipher.
func (e *envelope) SealStream(ctx context.Context, w io.Writer, about ...string) (io.WriteCloser, error) {
	return NewWriter(ctx, e, w, about...)
}

// OpenStream implements client.StreamCipher.
func (e *envelope) OpenStream(ctx context.Context, open func(int64) (io.ReadCloser, error), size int64, about ...string) (io.ReadSeekCloser, error) {
	r, err := NewReader(ctx, e, open, size, about...)
	if err != nil {
		return nil, err
	}
	return r, nil
}

var _ client.StreamCipher = (*envelope)(nil)

// Reader decrypts a stream of NewWriter, from any position. Nothing that it returns is other than what was written
// there. io.EOF means that the stream ends there, too. The error wraps client.ErrTampered or client.ErrNoKey as that
// of a Cipher does; others are the Opener's, and the next Read or Seek tries again. A Reader is used by one
// goroutine at a time.
type Reader struct {
	open   Opener
	gcm    cipher.AEAD
	prefix []byte // of the nonces
	head   int64  // bytes before the first chunk's text
	size   int64  // of the ciphertext

	at     int64         // position in the plaintext
	body   io.ReadCloser // of the ciphertext at the chunk next; nil: to be opened
	next   int64
	buffer [chunkSize]byte
	plain  []byte // of the chunk have, in buffer
	have   int64  // -1: of none
	ended  bool   // the last chunk was seen, so that the stream is as long as it seems
}

// NewReader opens a stream that has size bytes of ciphertext. ctx is that of the Cipher's call. Close must be called.
func NewReader(ctx context.Context, with client.Cipher, open Opener, size int64, about ...string) (*Reader, error) {
	if size < minStream {
		return nil, fmt.Errorf("%w: it has %d bytes", client.ErrTampered, size)
	}
	r := &Reader{open: open, size: size, have: -1}
	if err := r.begin(ctx, with, binding(about)); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// begin reads the header.
func (r *Reader) begin(ctx context.Context, with client.Cipher, about []byte) (err error) {
	if r.body, err = r.open(0); err != nil {
		return err
	}
	length := make([]byte, lengthSize)
	if err := r.fill(length); err != nil {
		return err
	}
	n := int64(binary.BigEndian.Uint32(length))
	if n > maxWrappedKey || n+minStream > r.size {
		return fmt.Errorf("%w: a key of %d bytes", client.ErrTampered, n)
	}
	head := make([]byte, n+tinkHeader)
	if err := r.fill(head); err != nil {
		return err
	}
	wrapped, own := head[:n], head[n:]
	if own[0] != tinkHeader {
		return fmt.Errorf("%w: a header of %d bytes", client.ErrTampered, own[0])
	}
	key, err := with.DecryptWithContext(ctx, wrapped, about)
	if err != nil {
		return err
	}
	if len(key) != keySize {
		return fmt.Errorf("%w: a key of %d bytes", client.ErrTampered, len(key))
	}
	if r.gcm, err = chunkCipher(key, own[1:1+keySize]); err != nil {
		return err
	}
	r.prefix, r.head = own[1+keySize:], lengthSize+n+tinkHeader
	if last := r.size - r.start(r.chunks()-1); last < tagSize {
		return fmt.Errorf("%w: its last chunk has %d bytes", client.ErrTampered, last)
	}
	return nil
}

// chunkCipher returns the cipher of the chunks, as the AES-GCM-HKDF streams of Tink derive it.
func chunkCipher(key, salt []byte) (cipher.AEAD, error) {
	derived, err := hkdf.Key(sha256.New, key, salt, "", keySize)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(derived)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// chunks returns the number of chunks.
func (r *Reader) chunks() int64 { return (r.size + chunkSize - 1) / chunkSize }

// start returns where the ciphertext of a chunk begins.
func (r *Reader) start(chunk int64) int64 { return max(chunk*chunkSize, r.head) }

// plainStart returns where the plaintext of a chunk begins; of the chunk behind the last one the length of all.
func (r *Reader) plainStart(chunk int64) int64 {
	return max(min(chunk*chunkSize, r.size)-r.head-chunk*tagSize, 0)
}

// chunkOf returns the chunk of a position in the plaintext.
func (r *Reader) chunkOf(at int64) int64 { return (at + r.head) / (chunkSize - tagSize) }

// Read implements io.Reader.
func (r *Reader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if end := r.plainStart(r.chunks()); r.at >= end {
		if err := r.seeEnd(); err != nil {
			return 0, err
		}
		return 0, io.EOF
	}
	chunk := r.chunkOf(r.at)
	if err := r.load(chunk); err != nil {
		return 0, err
	}
	n := copy(p, r.plain[r.at-r.plainStart(chunk):])
	r.at += int64(n)
	return n, nil
}

// seeEnd reads the last chunk, unless that was done: its mark says that the stream ends with it.
func (r *Reader) seeEnd() error {
	if r.ended {
		return nil
	}
	return r.load(r.chunks() - 1)
}

// Seek implements io.Seeker. From the end it reads the last chunk first.
func (r *Reader) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += r.at
	case io.SeekEnd:
		if err := r.seeEnd(); err != nil {
			return 0, err
		}
		offset += r.plainStart(r.chunks())
	}
	if offset < 0 {
		return 0, fmt.Errorf("seek to %d: must not be negative", offset)
	}
	r.at = offset
	return offset, nil
}

// load decrypts a chunk.
func (r *Reader) load(chunk int64) error {
	if r.have == chunk {
		return nil
	}
	if err := r.moveTo(chunk); err != nil {
		return err
	}
	r.have = -1
	data := r.buffer[:min((chunk+1)*chunkSize, r.size)-r.start(chunk)]
	if err := r.fill(data); err != nil {
		return err
	}
	r.next++
	last := chunk == r.chunks()-1
	nonce := binary.BigEndian.AppendUint32(append(make([]byte, 0, r.gcm.NonceSize()), r.prefix...), uint32(chunk))
	if last {
		nonce = append(nonce, 1)
	} else {
		nonce = append(nonce, 0)
	}
	plain, err := r.gcm.Open(data[:0], nonce, data, nil)
	if err != nil {
		return fmt.Errorf("%w: chunk %d: %w", client.ErrTampered, chunk, err)
	}
	r.plain, r.have, r.ended = plain, chunk, r.ended || last
	return nil
}

// moveTo makes the body begin at a chunk.
func (r *Reader) moveTo(chunk int64) (err error) {
	if r.body != nil && r.next == chunk {
		return nil
	}
	if err := r.Close(); err != nil {
		return err
	}
	r.next = chunk
	r.body, err = r.open(r.start(chunk))
	return err
}

// fill reads the next bytes of the body. After an error it is opened again.
func (r *Reader) fill(p []byte) error {
	for {
		n, err := r.body.Read(p)
		if p = p[n:]; len(p) == 0 {
			return nil
		}
		if err == io.EOF { //nolint:errorlint // io.Reader's contract; a connection that is cut has another error
			err = fmt.Errorf("%w: it ends before its %d bytes", client.ErrTampered, r.size)
		}
		if err != nil {
			return errors.Join(err, r.Close())
		}
	}
}

// Close implements io.Closer.
func (r *Reader) Close() error {
	if r.body == nil {
		return nil
	}
	body := r.body
	r.body = nil
	return body.Close()
}
