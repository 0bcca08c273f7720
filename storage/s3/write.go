package s3

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	smithy "github.com/aws/smithy-go"

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
	b.encryption.apply(in)
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

// DeleteBatch implements storage.BatchDeleter. A store that does not know DeleteObjects, or wants
// another checksum than the SDK's, gets a request for each key.
func (b *Bucket) DeleteBatch(ctx context.Context, keys []string) map[string]error {
	if len(keys) == 0 || b.noBatches.Load() {
		return storage.DeleteEach(ctx, b, keys)
	}
	failed := make(map[string]error)
	objects := make([]types.ObjectIdentifier, 0, len(keys))
	for _, key := range keys {
		if err := storage.ValidateKey(key); err != nil {
			failed[key] = err
			continue
		}
		objects = append(objects, types.ObjectIdentifier{Key: aws.String(b.location.Name(key))})
	}
	if len(objects) == 0 {
		return failed
	}
	limited, cancel := context.WithTimeout(ctx, remote.WriteTimeout(0))
	defer cancel()
	out, err := b.client.DeleteObjects(limited, &s3.DeleteObjectsInput{
		Bucket: aws.String(b.location.Bucket),
		Delete: &types.Delete{Objects: objects, Quiet: aws.Bool(true)},
	})
	if unsupported := answerOf(err).noSuchOperation(); err != nil && unsupported {
		b.noBatches.Store(true)
		return storage.DeleteEach(ctx, b, keys)
	}
	if err != nil {
		for _, key := range keys {
			failed[key] = b.explain("delete", key, err)
		}
		return failed
	}
	for _, e := range out.Errors {
		key, ok := b.location.Key(aws.ToString(e.Key))
		if code := aws.ToString(e.Code); ok && code != "NoSuchKey" {
			failed[key] = b.explain("delete", key, &smithy.GenericAPIError{Code: code, Message: aws.ToString(e.Message)})
		}
	}
	return failed
}

// encryption is the server-side encryption that writes ask for. The zero value asks for
// none, so that the bucket's own setting applies.
type encryption struct {
	algorithm types.ServerSideEncryption
	key       string // "": the store's own key
}

// algorithms are the values of the parameter sse.
var algorithms = map[string]types.ServerSideEncryption{
	"s3":       types.ServerSideEncryptionAes256,
	"kms":      types.ServerSideEncryptionAwsKms,
	"kms-dsse": types.ServerSideEncryptionAwsKmsDsse,
}

var errKeyAlone = errors.New("the parameter sse-key needs sse=kms or sse=kms-dsse")

func encryptionOf(l remote.Location) (encryption, error) {
	sse, key := l.Params["sse"], l.Params["sse-key"]
	if sse == "" && key == "" {
		return encryption{}, nil
	}
	algorithm, ok := algorithms[sse]
	if !ok && sse != "" {
		return encryption{}, fmt.Errorf("parameter sse=%s: must be s3, kms or kms-dsse", sse)
	}
	if key != "" && (sse == "" || sse == "s3") {
		return encryption{}, errKeyAlone
	}
	return encryption{algorithm: algorithm, key: key}, nil
}

// apply sets the headers of a write. Every write is a single PutObject, so that there is
// no other request to set them on.
func (e encryption) apply(in *s3.PutObjectInput) {
	if e.algorithm == "" {
		return
	}
	in.ServerSideEncryption = e.algorithm
	if e.key != "" {
		in.SSEKMSKeyId = aws.String(e.key)
	}
	if e.algorithm == types.ServerSideEncryptionAwsKms {
		in.BucketKeyEnabled = aws.Bool(true) // else every write costs a request to KMS
	}
}
