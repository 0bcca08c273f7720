package gcs

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"net/url"
	"strconv"

	"github.com/go-json-experiment/json"

	"osqueue/storage"
	"osqueue/storage/internal/remote"
)

// PutIfAbsent implements storage.Bucket.
func (b *Bucket) PutIfAbsent(ctx context.Context, key string, data []byte) storage.Write {
	return b.put(ctx, key, data, 0)
}

// PutIfMatch implements storage.Bucket.
func (b *Bucket) PutIfMatch(ctx context.Context, key string, data []byte, v storage.Version) storage.Write {
	if err := storage.ValidateWrite(key, data); err != nil {
		return storage.Write{Err: err}
	}
	generation, ok := parseVersion(v)
	if !ok {
		return storage.Write{Outcome: storage.Conflict}
	}
	return b.put(ctx, key, data, generation)
}

// put writes an object if its generation is the given one; 0: if there is none.
func (b *Bucket) put(ctx context.Context, key string, data []byte, over int64) storage.Write {
	if err := storage.ValidateWrite(key, data); err != nil {
		return storage.Write{Err: err}
	}
	ctx, cancel := context.WithTimeout(ctx, remote.WriteTimeout(len(data)))
	defer cancel()
	generation, err := b.client.upload(ctx, b.location.Name(key), remote.ContentType(key), data, over)
	if err == nil && generation <= 0 {
		err = errNoGeneration
	}
	if err != nil {
		return b.failed(ctx, key, err)
	}
	return storage.Write{Outcome: storage.Committed, Version: formatVersion(generation)}
}

// metadata describes an object in an upload.
type metadata struct {
	Name        string `json:"name"`
	ContentType string `json:"contentType"`
	CRC32C      string `json:"crc32c"`
}

// upload writes an object with one request, and returns its generation.
func (c *client) upload(ctx context.Context, name, mediaType string, data []byte, over int64) (int64, error) {
	head, tail, boundary, err := envelope(metadata{
		Name: name, ContentType: mediaType,
		CRC32C: base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, crc32.Checksum(data, castagnoli))),
	})
	if err != nil {
		return 0, err
	}
	target := "/upload/storage/v1/b/" + url.PathEscape(c.bucket) + "/o?uploadType=multipart&name=" + url.QueryEscape(name) + "&ifGenerationMatch=" +
		strconv.FormatInt(over, 10)
	if c.key != "" {
		target += "&kmsKeyName=" + url.QueryEscape(c.key)
	}
	body := &sized{io.MultiReader(bytes.NewReader(head), bytes.NewReader(data), bytes.NewReader(tail)), len(head) + len(data) + len(tail)}
	var answer struct {
		Generation int64 `json:"generation,string"`
	}
	err = c.sendForJSON(ctx, http.MethodPost, target, "multipart/related; boundary="+boundary, body, &answer)
	return answer.Generation, err
}

// sized is a body whose length is known.
type sized struct {
	io.Reader
	size int
}

// envelope returns the bytes of an upload before and after the object.
func envelope(m metadata) (head, tail []byte, boundary string, err error) {
	var buf bytes.Buffer
	parts := multipart.NewWriter(&buf)
	first, err := parts.CreatePart(textproto.MIMEHeader{"Content-Type": {"application/json; charset=UTF-8"}})
	if err != nil {
		return nil, nil, "", err
	}
	if err := json.MarshalWrite(first, m); err != nil {
		return nil, nil, "", err
	}
	if _, err := parts.CreatePart(textproto.MIMEHeader{"Content-Type": {m.ContentType}}); err != nil {
		return nil, nil, "", err
	}
	cut := buf.Len()
	if err := parts.Close(); err != nil {
		return nil, nil, "", err
	}
	return buf.Bytes()[:cut:cut], buf.Bytes()[cut:], parts.Boundary(), nil
}

func (b *Bucket) failed(ctx context.Context, key string, err error) storage.Write {
	outcome := storage.Unknown
	switch statusOf(err) {
	case http.StatusPreconditionFailed, http.StatusConflict:
		outcome = storage.Conflict
	}
	if ctx.Err() != nil && !errors.Is(err, ctx.Err()) {
		err = errors.Join(ctx.Err(), err) // the client hides what ended it
	}
	return storage.Write{Outcome: outcome, Err: b.explain("put", key, err)}
}

// Delete implements storage.Bucket.
func (b *Bucket) Delete(ctx context.Context, key string) error {
	if err := storage.ValidateKey(key); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, remote.WriteTimeout(0))
	defer cancel()
	_, err := repeated(ctx, func() (struct{}, error) {
		res, err := b.client.send(ctx, http.MethodDelete, b.client.object(b.location.Name(key)), "", nil)
		if err != nil {
			return struct{}{}, err
		}
		return struct{}{}, res.Body.Close()
	})
	if err != nil && !absent(err) {
		return b.explain("delete", key, err)
	}
	return nil
}

func formatVersion(generation int64) storage.Version {
	return storage.Version(strconv.FormatInt(generation, 10))
}

// parseVersion is the inverse of formatVersion and accepts nothing else.
func parseVersion(v storage.Version) (generation int64, ok bool) {
	g, err := strconv.ParseInt(string(v), 10, 64)
	return g, err == nil && g > 0 && formatVersion(g) == v
}
