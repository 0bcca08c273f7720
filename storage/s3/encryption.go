package s3

import (
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"osqueue/storage/internal/remote"
)

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
