package runner

import (
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// readPayload decodes a payload. It accepts all JSON that the cluster accepts from
// producers.
func readPayload(payload []byte, out any, more ...json.Options) error {
	more = append(more, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if err := json.Unmarshal(payload, out, more...); err != nil {
		return fmt.Errorf("read the payload: %w", err)
	}
	return nil
}
