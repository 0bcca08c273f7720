package blob

import (
	"errors"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/klauspost/compress/zstd"
)

// Options of a Writer. A zero field means its default.
type Options struct {
	// PartBytes is the size of all parts but the last, compressed; 8 MiB. It
	// bounds what is held in memory, with Parallel.
	PartBytes int
	// Parallel is how many parts are uploaded at a time; 2.
	Parallel int
	// Level of the compression; zstd.SpeedDefault.
	Level zstd.EncoderLevel
	// Meta is JSON of the caller's that goes into the manifest; nil is none.
	Meta []byte
}

const (
	defaultPartBytes = 8 << 20
	defaultParallel  = 2
	partMax          = 256 << 20 // far from what drivers take
)

// normal is o with defaults, or an error for what cannot be.
func (o Options) normal() (Options, error) {
	if o.PartBytes == 0 {
		o.PartBytes = defaultPartBytes
	}
	if o.Parallel == 0 {
		o.Parallel = defaultParallel
	}
	if o.Level == 0 {
		o.Level = zstd.SpeedDefault
	}
	switch {
	case o.PartBytes < 0 || o.PartBytes > partMax:
		return o, fmt.Errorf("parts of %d bytes: at most %d bytes are allowed", o.PartBytes, partMax)
	case o.Parallel < 0:
		return o, fmt.Errorf("%d parallel uploads: at least 1 is needed", o.Parallel)
	case o.Meta != nil:
		meta, err := compactMeta(o.Meta)
		if err != nil {
			return o, err
		}
		o.Meta = meta
	}
	return o, nil
}

func compactMeta(data []byte) ([]byte, error) {
	meta := jsontext.Value(data).Clone()
	if !meta.IsValid() {
		return nil, errors.New("the metadata for the manifest is not valid JSON: it must be UTF-8, and no name may occur twice")
	}
	err := meta.Compact()
	return meta, err
}
