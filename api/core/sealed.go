package core

import (
	"bytes"
	"hash"
)

// sealedMark is in every ciphertext of a body as the SDK writes it (docs/encryption.md). In
// a JSON string the quote would be escaped, so no plaintext contains it.
var sealedMark = []byte(`"osqueue.sealed`)

// sealedHeads follow the mark, up to the ciphertext, which ends with a quote.
var sealedHeads = [][]byte{
	[]byte(`":1,"to":"job","data":"`),
	[]byte(`":1,"to":"cron","data":"`),
	[]byte(`:1:`),
}

// partUnsealed is part without the ciphertexts in b. Encryption never gives the same bytes
// twice, and a repeated request is still the same request: the ids, types and all other
// fields of its jobs count.
func partUnsealed(h hash.Hash, b []byte) {
	at := bytes.Index(b, sealedMark)
	if at < 0 {
		Part(h, b)
		return
	}
	kept := make([]byte, 0, len(b))
	for at >= 0 {
		at += len(sealedMark)
		kept = append(kept, b[:at]...)
		b = b[at:]
		for _, head := range sealedHeads {
			rest, ok := bytes.CutPrefix(b, head)
			if end := bytes.IndexByte(rest, '"'); ok && end >= 0 {
				kept = append(kept, head...)
				b = rest[end:]
				break
			}
		}
		at = bytes.Index(b, sealedMark)
	}
	Part(h, append(kept, b...))
}
