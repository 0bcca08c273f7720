package s3

import (
	"bytes"
	"context"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"osqueue/storage"
	"osqueue/storage/internal/remote"
)

// PutIfAbsent implements storage.Bucket.
func (b *Bucket) PutIfAbsent(ctx context.Context, key string, data []byte) storage.Write {
	return b.put(ctx, key, data, func(in *s3.PutObjectInput) { in.IfNoneMatch = aws.String("*") })
}

// PutIfMatch implements storage.Bucket.
func (b *Bucket) PutIfMatch(ctx context.Context, key string, data []byte, v storage.Version) storage.Write {
	if err := storage.ValidateWrite(key, data); err != nil {
		return storage.Write{Err: err}
	}
	if !isETag(v) {
		return storage.Write{Outcome: storage.Conflict}
	}
	return b.put(ctx, key, data, func(in *s3.PutObjectInput) { in.IfMatch = aws.String(string(v)) })
}

// isETag reports whether v can be an object's ETag. A star, a list or nothing
// would be another condition than "this version": stores were seen to take
// If-Match: "" for no condition at all.
func isETag(v storage.Version) bool {
	tag := strings.Trim(string(v), `"`)
	return tag != "" && !strings.ContainsFunc(tag, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune(`"*,`, r)
	})
}

func (b *Bucket) put(
	ctx context.Context, key string, data []byte, condition func(*s3.PutObjectInput),
) storage.Write {
	if err := storage.ValidateWrite(key, data); err != nil {
		return storage.Write{Err: err}
	}
	ctx, cancel := context.WithTimeout(ctx, remote.WriteTimeout(len(data)))
	defer cancel()
	in := &s3.PutObjectInput{
		Bucket:        aws.String(b.location.Bucket),
		Key:           aws.String(b.location.Name(key)),
		Body:          bytes.NewReader(data),
		ContentLength: aws.Int64(int64(len(data))),
		ContentType:   aws.String(remote.ContentType(key)),
	}
	condition(in)
	out, err := b.client.PutObject(ctx, in, func(o *s3.Options) { o.Retryer = aws.NopRetryer{} })
	if err == nil && aws.ToString(out.ETag) == "" {
		err = errNoETag
	}
	if err != nil {
		return b.failed(key, err)
	}
	return storage.Write{Outcome: storage.Committed, Version: storage.Version(*out.ETag)}
}

func (b *Bucket) failed(key string, err error) storage.Write {
	outcome := storage.Unknown
	if answerOf(err).refused() {
		outcome = storage.Conflict
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
	_, err := b.client.DeleteObject(ctx, &s3.DeleteObjectInput{
		Bucket: aws.String(b.location.Bucket),
		Key:    aws.String(b.location.Name(key)),
	})
	if err != nil && answerOf(err).code != "NoSuchKey" {
		return b.explain("delete", key, err)
	}
	return nil
}
