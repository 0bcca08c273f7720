package s3

import (
	"bytes"
	"context"
	"crypto/md5" //nolint:gosec // see isMD5
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"osqueue/storage"
	"osqueue/storage/internal/remote"
)

// bodyAttempts is how often a read is begun again whose body broke off, or may
// not belong to its ETag. The SDK's retries end with the response's header.
const bodyAttempts = 5

// Get implements storage.Bucket.
func (b *Bucket) Get(ctx context.Context, key string) (storage.Object, error) {
	if err := storage.ValidateKey(key); err != nil {
		return storage.Object{}, err
	}
	err := errTorn
	var last storage.Object
	for range bodyAttempts {
		o, again, e := b.getOnce(ctx, key)
		if e == nil && (isMD5(o.Version, o.Data) || o.Version == last.Version && bytes.Equal(o.Data, last.Data)) {
			return o, nil
		}
		if e == nil {
			last = o
			continue
		}
		if err = e; !again || ctx.Err() != nil {
			break
		}
	}
	if answerOf(err).code == "NoSuchKey" {
		return storage.Object{}, fmt.Errorf("get %q from %s: %w", key, b.location, storage.ErrNotFound)
	}
	return storage.Object{}, b.explain("get", key, err)
}

// errTorn: the ETag was never that of the bytes, nor the same twice.
var errTorn = errors.New("each read returns a different version: other programs write the object all the time, or " +
	"the store is broken")

// isMD5 reports whether the ETag is the MD5 of the bytes, as it is for plain
// objects, and so belongs to them. A gateway that looks at the ETag first and at
// the file later (VersityGW 1.8 over POSIX) now and then answers with those of
// two versions. Where ETags are something else (encryption with KMS), two reads
// that agree have to do.
func isMD5(v storage.Version, data []byte) bool {
	sum := md5.Sum(data) //nolint:gosec // S3 defines it so; nothing is protected by it
	return strings.Trim(string(v), `"`) == hex.EncodeToString(sum[:])
}

// getOnce reports again when another attempt makes sense.
func (b *Bucket) getOnce(ctx context.Context, key string) (o storage.Object, again bool, err error) {
	idle := remote.NewIdle(ctx, remote.IdleLimit)
	defer idle.Stop()
	out, err := b.client.GetObject(idle, &s3.GetObjectInput{
		Bucket: aws.String(b.location.Bucket),
		Key:    aws.String(b.location.Name(key)),
	})
	if err != nil {
		return o, false, idle.Explain(err)
	}
	defer out.Body.Close()
	if aws.ToString(out.ETag) == "" {
		return o, false, errNoETag
	}
	size := int64(-1)
	if out.ContentLength != nil {
		size = *out.ContentLength
	}
	data, err := remote.ReadBody(idle, out.Body, size)
	if err != nil {
		return o, true, err
	}
	return storage.Object{Data: data, Version: storage.Version(*out.ETag)}, false, nil
}

// List implements storage.Bucket.
func (b *Bucket) List(ctx context.Context, prefix string, fn func(storage.Info) bool) error {
	idle := remote.NewIdle(ctx, remote.IdleLimit)
	defer idle.Stop()
	pages := s3.NewListObjectsV2Paginator(b.client, &s3.ListObjectsV2Input{
		Bucket:  aws.String(b.location.Bucket),
		Prefix:  aws.String(b.location.Name(prefix)),
		MaxKeys: aws.Int32(b.pageSize),
	})
	last := ""
	for pages.HasMorePages() {
		page, err := pages.NextPage(idle)
		if err != nil {
			return b.explain("list", prefix, idle.Explain(err))
		}
		// The SDK reads any web page as an empty listing.
		if page.Name == nil {
			return b.explain("list", prefix, errNoListing)
		}
		idle.Pause()
		for _, object := range page.Contents {
			name := aws.ToString(object.Key)
			if name <= last {
				return b.explain("list", prefix, fmt.Errorf("the store lists %q after %q: its listing is not sorted, so it cannot be used", name, last))
			}
			last = name
			key, ok := b.location.Key(name)
			if ok && !fn(storage.Info{Key: key, Size: aws.ToInt64(object.Size)}) {
				return nil
			}
		}
		idle.Moved()
	}
	return nil
}
