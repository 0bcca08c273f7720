package gcs

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"net/url"
	"time"

	gcs "cloud.google.com/go/storage"
	"google.golang.org/api/googleapi"

	"osqueue/storage"
	"osqueue/storage/internal/remote"
)

// PutStream implements storage.Streamer. It is one request with the size as its length, so that the store drops
// one that is cut. The client's own uploads have no length, and end a cut one with the boundary of a whole one.
func (b *Bucket) PutStream(ctx context.Context, key string, r io.Reader, c storage.Content) storage.Write {
	src, err := storage.NewSource(ctx, key, r, c)
	if err != nil {
		return storage.Write{Err: fmt.Errorf("put %q in %s: %w", key, b.location, err)}
	}
	idle := remote.NewIdle(ctx, remote.IdleLimit)
	defer idle.Stop()
	generation, err := b.sendStream(idle, key, idle.Reader(src), c.Size)
	if cut := src.Close(); err != nil && cut != nil {
		err = cut // and not how the client calls it
	}
	if err != nil {
		return b.failed(ctx, key, idle.Explain(err))
	}
	return storage.Write{Outcome: storage.Committed, Version: formatVersion(generation)}
}

// sendStream creates an object, and returns its generation. It deletes an object whose bytes were changed on
// their way: their CRC is not known before they are sent.
func (b *Bucket) sendStream(ctx context.Context, key string, r io.Reader, size int64) (int64, error) {
	crc := crc32.New(castagnoli)
	made, err := b.insert(ctx, key, io.TeeReader(r, crc), size)
	if err != nil {
		return 0, err
	}
	generation, ok := parseVersion(storage.Version(made.Generation))
	if !ok {
		return 0, errNoGeneration
	}
	if made.CRC32C != base64.StdEncoding.EncodeToString(crc.Sum(nil)) {
		err := b.object(key).If(gcs.Conditions{GenerationMatch: generation}).Delete(ctx)
		return 0, errors.Join(errChanged, err)
	}
	return generation, nil
}

// object is the answer to a simple upload, as far as it is of use.
type object struct {
	Generation string `json:"generation"`
	CRC32C     string `json:"crc32c"` // big-endian, in base64
}

// maxAnswer bounds the answer to an upload, in bytes.
const maxAnswer = 1 << 20

// insert makes a simple upload (uploadType=media) of an object that does not exist.
func (b *Bucket) insert(ctx context.Context, key string, r io.Reader, size int64) (made object, err error) {
	query := url.Values{"uploadType": {"media"}, "name": {b.location.Name(key)}, "ifGenerationMatch": {"0"}}
	if b.key != "" {
		query.Set("kmsKeyName", b.key)
	}
	to := b.base + "/upload/storage/v1/b/" + url.PathEscape(b.location.Bucket) + "/o?" + query.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, io.NopCloser(r))
	if err != nil {
		return made, err
	}
	if req.ContentLength = size; size == 0 {
		req.Body = http.NoBody
	}
	req.Header.Set("Content-Type", remote.ContentType(key))
	res, err := b.http.Do(req)
	if err != nil {
		return made, err
	}
	defer res.Body.Close()
	if err := googleapi.CheckResponse(res); err != nil {
		return made, err
	}
	return made, json.NewDecoder(io.LimitReader(res.Body, maxAnswer)).Decode(&made)
}

var errChanged = errors.New("the bytes were changed on their way to the store; try again")

// GetRange implements storage.Streamer.
func (b *Bucket) GetRange(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	if err := storage.ValidateRange(key, offset, length); err != nil {
		return nil, err
	}
	idle := remote.NewIdle(ctx, remote.IdleLimit)
	r, err := b.object(key).NewRangeReader(idle, offset, max(length, 1))
	switch {
	case err == nil:
		return remote.NewBody(idle, r, min(length, r.Remain())), nil
	case statusOf(err) == http.StatusRequestedRangeNotSatisfiable: // it exists, and ends before offset
		return remote.NewBody(idle, http.NoBody, 0), nil
	}
	defer idle.Stop()
	if absent(err) {
		return nil, fmt.Errorf("get %q from %s: %w", key, b.location, storage.ErrNotFound)
	}
	return nil, b.explain("get", key, idle.Explain(err))
}

// Stat implements storage.Streamer. GCS has no SHA-256 of an object.
func (b *Bucket) Stat(ctx context.Context, key string) (storage.Stat, error) {
	if err := storage.ValidateKey(key); err != nil {
		return storage.Stat{}, err
	}
	idle := remote.NewIdle(ctx, remote.IdleLimit)
	defer idle.Stop()
	attrs, err := b.object(key).Attrs(idle)
	switch {
	case err == nil && attrs.Generation <= 0:
		err = errNoGeneration
	case err == nil:
		return storage.Stat{Size: attrs.Size}, nil
	case absent(err):
		return storage.Stat{}, fmt.Errorf("stat %q in %s: %w", key, b.location, storage.ErrNotFound)
	}
	return storage.Stat{}, b.explain("stat", key, idle.Explain(err))
}

// SignPut implements storage.Signer.
func (b *Bucket) SignPut(ctx context.Context, key string, c storage.Content, valid time.Duration) (storage.Signed, error) {
	if err := c.Validate(key); err != nil {
		return storage.Signed{}, err
	}
	header := http.Header{}
	header.Set("Content-Type", remote.ContentType(key))
	header.Set("X-Goog-If-Generation-Match", "0")
	header.Set("X-Goog-Content-Length-Range", fmt.Sprintf("%d,%d", c.Size, c.Size))
	header.Set("X-Goog-Content-Sha256", hex.EncodeToString(c.Sum[:])) // signed; no page of Google's says that it is compared
	if b.key != "" {
		header.Set("X-Goog-Encryption-Kms-Key-Name", b.key)
	}
	return b.sign(ctx, http.MethodPut, key, header, valid)
}

// SignGet implements storage.Signer.
func (b *Bucket) SignGet(ctx context.Context, key string, valid time.Duration) (storage.Signed, error) {
	return b.sign(ctx, http.MethodGet, key, http.Header{}, valid)
}

// sign signs a request with the key of a service account. Credentials of other kinds have no key, and an
// emulator has no credentials.
func (b *Bucket) sign(ctx context.Context, method, key string, header http.Header, valid time.Duration) (storage.Signed, error) {
	if err := errors.Join(storage.ValidateKey(key), storage.ValidateSigned(valid)); err != nil {
		return storage.Signed{}, err
	}
	account, err := b.account(ctx)
	if err != nil {
		return storage.Signed{}, b.explain("sign", key, err)
	}
	store, err := url.Parse(b.base)
	if err != nil {
		return storage.Signed{}, b.explain("sign", key, err)
	}
	o := &gcs.SignedURLOptions{
		Scheme: gcs.SigningSchemeV4, GoogleAccessID: account.Email, PrivateKey: []byte(account.Key), Method: method,
		Expires: time.Now().Add(valid + cutOff), ContentType: header.Get("Content-Type"), Hostname: store.Host, Insecure: store.Scheme == "http",
	}
	for name := range header {
		if name != "Content-Type" {
			o.Headers = append(o.Headers, name+":"+header.Get(name))
		}
	}
	signed, err := gcs.SignedURL(b.location.Bucket, b.location.Name(key), o)
	if err != nil {
		return storage.Signed{}, b.explain("sign", key, err)
	}
	return storage.Signed{Method: method, URL: signed, Header: header}, nil
}

// cutOff keeps the client from cutting off a whole second.
const cutOff = time.Second / 2

// account is what signs, out of the file of a service account.
type account struct {
	Email string `json:"client_email"`
	Key   string `json:"private_key"`
}

func (b *Bucket) account(ctx context.Context) (a account, err error) {
	if b.keys == nil {
		return a, fmt.Errorf("an emulator takes no signatures: %w", errors.ErrUnsupported)
	}
	found, err := b.keys.current(ctx)
	if err != nil {
		return a, fmt.Errorf("find credentials: %w", err)
	}
	if json.Unmarshal(found.JSON(), &a) != nil || a.Email == "" || a.Key == "" {
		return a, fmt.Errorf("only the key file of a service account can sign: %w", errors.ErrUnsupported)
	}
	return a, nil
}
