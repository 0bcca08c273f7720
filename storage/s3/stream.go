package s3

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go/middleware"

	"osqueue/storage"
	"osqueue/storage/internal/remote"
)

// PutStream implements storage.Streamer. It is one PutObject whose length and SHA-256 are in its signature, so that
// the store refuses other bytes.
func (b *Bucket) PutStream(ctx context.Context, key string, r io.Reader, c storage.Content) storage.Write {
	src, err := storage.NewSource(ctx, key, r, c)
	if err != nil {
		return storage.Write{Err: fmt.Errorf("put %q in %s: %w", key, b.location, err)}
	}
	idle := remote.NewIdle(ctx, remote.IdleLimit)
	defer idle.Stop()
	in := b.creation(key, c)
	in.Body = idle.Reader(src)
	out, err := b.client.PutObject(idle, in, func(o *s3.Options) {
		o.Retryer = aws.NopRetryer{}
		o.APIOptions = append(o.APIOptions, payloadHash(c.Sum))
	})
	if err == nil && aws.ToString(out.ETag) == "" {
		err = errNoETag
	}
	if cut := src.Close(); err != nil && cut != nil {
		err = cut // and not how the client calls it
	}
	if err != nil {
		return b.failed(key, idle.Explain(err))
	}
	return storage.Write{Outcome: storage.Committed, Version: storage.Version(*out.ETag)}
}

// creation returns the request that creates an object with that content, without its body.
func (b *Bucket) creation(key string, c storage.Content) *s3.PutObjectInput {
	in := &s3.PutObjectInput{
		Bucket:            aws.String(b.location.Bucket),
		Key:               aws.String(b.location.Name(key)),
		ContentLength:     aws.Int64(c.Size),
		ContentType:       aws.String(remote.ContentType(key)),
		ChecksumAlgorithm: types.ChecksumAlgorithmSha256,
		ChecksumSHA256:    aws.String(base64.StdEncoding.EncodeToString(c.Sum[:])),
		IfNoneMatch:       aws.String("*"),
	}
	b.encryption.apply(in)
	return in
}

// payloadHash signs the hash of a body that the SDK cannot read twice.
func payloadHash(sum storage.Sum) func(*middleware.Stack) error {
	return func(stack *middleware.Stack) error {
		return stack.Initialize.Add(middleware.InitializeMiddlewareFunc("osqueuePayloadHash",
			func(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (middleware.InitializeOutput, middleware.Metadata, error) {
				return next.HandleInitialize(v4.SetPayloadHash(ctx, hex.EncodeToString(sum[:])), in)
			}), middleware.Before)
	}
}

// GetRange implements storage.Streamer.
func (b *Bucket) GetRange(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	if err := storage.ValidateRange(key, offset, length); err != nil {
		return nil, err
	}
	idle := remote.NewIdle(ctx, remote.IdleLimit)
	body, err := b.getRange(idle, key, offset, length)
	if err == nil {
		return body, nil
	}
	idle.Stop()
	if answerOf(err).code == "NoSuchKey" {
		return nil, fmt.Errorf("get %q from %s: %w", key, b.location, storage.ErrNotFound)
	}
	return nil, b.explain("get", key, idle.Explain(err))
}

// errNoRange: a store that ignores ranges would be read from the beginning.
var errNoRange = errors.New("the answer is not the range that was asked for: does the store know ranges?")

func (b *Bucket) getRange(idle *remote.Idle, key string, offset, length int64) (io.ReadCloser, error) {
	out, err := b.client.GetObject(idle, &s3.GetObjectInput{
		Bucket: aws.String(b.location.Bucket),
		Key:    aws.String(b.location.Name(key)),
		Range:  aws.String(fmt.Sprintf("bytes=%d-%d", offset, offset+max(length, 1)-1)),
	}, func(o *s3.Options) {
		// The checksum of a store is that of the whole object.
		o.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired
	})
	if answerOf(err).status == http.StatusRequestedRangeNotSatisfiable { // it exists, and ends before offset
		return remote.NewBody(idle, http.NoBody, 0), nil
	}
	if err != nil {
		return nil, err
	}
	if !strings.HasPrefix(aws.ToString(out.ContentRange), fmt.Sprintf("bytes %d-", offset)) || out.ContentLength == nil {
		return nil, errors.Join(errNoRange, out.Body.Close())
	}
	return remote.NewBody(idle, out.Body, min(length, *out.ContentLength)), nil
}

// Stat implements storage.Streamer. The answer has the SHA-256 that the object was created with.
func (b *Bucket) Stat(ctx context.Context, key string) (storage.Stat, error) {
	if err := storage.ValidateKey(key); err != nil {
		return storage.Stat{}, err
	}
	idle := remote.NewIdle(ctx, remote.IdleLimit)
	defer idle.Stop()
	out, err := b.client.HeadObject(idle, &s3.HeadObjectInput{
		Bucket:       aws.String(b.location.Bucket),
		Key:          aws.String(b.location.Name(key)),
		ChecksumMode: types.ChecksumModeEnabled,
	})
	if answerOf(err).status == http.StatusNotFound { // without a body: a bucket that is missing looks the same
		return storage.Stat{}, fmt.Errorf("stat %q in %s: %w", key, b.location, storage.ErrNotFound)
	}
	if err == nil && (aws.ToString(out.ETag) == "" || out.ContentLength == nil) {
		err = errNoETag
	}
	if err != nil {
		return storage.Stat{}, b.explain("stat", key, idle.Explain(err))
	}
	s := storage.Stat{Size: *out.ContentLength}
	// The sum of an object in parts is that of other bytes, and has another form.
	if sum, err := base64.StdEncoding.DecodeString(aws.ToString(out.ChecksumSHA256)); err == nil && len(sum) == len(storage.Sum{}) {
		s.Sum = (*storage.Sum)(sum)
	}
	return s, nil
}

// SignPut implements storage.Signer. The URL is good for one creation with that content only.
func (b *Bucket) SignPut(ctx context.Context, key string, c storage.Content, valid time.Duration) (storage.Signed, error) {
	if err := errors.Join(c.Validate(key), storage.ValidateSigned(valid)); err != nil {
		return storage.Signed{}, err
	}
	signed, err := b.presigner(valid).PresignPutObject(ctx, b.creation(key, c))
	return b.signed(key, signed, err)
}

// SignGet implements storage.Signer.
func (b *Bucket) SignGet(ctx context.Context, key string, valid time.Duration) (storage.Signed, error) {
	if err := errors.Join(storage.ValidateKey(key), storage.ValidateSigned(valid)); err != nil {
		return storage.Signed{}, err
	}
	signed, err := b.presigner(valid).PresignGetObject(ctx, &s3.GetObjectInput{
		Bucket: aws.String(b.location.Bucket),
		Key:    aws.String(b.location.Name(key)),
	})
	return b.signed(key, signed, err)
}

func (b *Bucket) presigner(valid time.Duration) *s3.PresignClient {
	return s3.NewPresignClient(b.client, s3.WithPresignExpires(valid), func(o *s3.PresignOptions) {
		o.ClientOptions = append(o.ClientOptions, func(o *s3.Options) {
			o.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired // a browser need not ask for it
		})
	})
}

func (b *Bucket) signed(key string, r *v4.PresignedHTTPRequest, err error) (storage.Signed, error) {
	if err != nil {
		return storage.Signed{}, b.explain("sign", key, err)
	}
	header := r.SignedHeader.Clone()
	header.Del("Host") // the URL has it
	return storage.Signed{Method: r.Method, URL: r.URL, Header: header}, nil
}
