package document

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	"osqueue/fsm"
)

// The field "sums" of the header of an inline document has the checksum of the state, and
// the checksum of the document, which shows whether anyone has edited it since. An editor
// does not update them, so that the state is compared only if the document is as its writer
// left it.

// digits is the length of a checksum in hex.
const digits = 2 * sha256.Size

// sums appends the field "sums" with space for the checksums.
func (a *appender) sums() {
	a.signs.from = len(a.buf)
	a.key("sums")
	a.open('{')
	for _, name := range []string{"state", "document"} {
		a.key(name)
		a.open('"')
		a.buf = append(a.buf, make([]byte, digits)...)
		a.close('"')
	}
	a.close('}')
	a.signs.to = len(a.buf)
}

// sign sets the checksums of the document that begins at from, with state v. It removes
// the field if the document does not have the whole state.
func (a *appender) sign(v *fsm.View, from int) {
	if a.lossy {
		a.buf = slices.Delete(a.buf, a.signs.from, a.signs.to)
		return
	}
	document := span{a.signs.to - len(`"}`) - digits, a.signs.to - len(`"}`)}
	state := document.from - len(`","document":"`) - digits
	sum := v.Hash()
	hex.Encode(a.buf[state:], sum[:])
	sum = sumAround(a.buf[from:], span{document.from - from, document.to - from})
	hex.Encode(a.buf[document.from:], sum[:])
}

// sumAround returns the checksum of the bytes outside s.
func sumAround(data []byte, s span) (sum Sum) {
	h := sha256.New()
	h.Write(data[:s.from])
	h.Write(data[s.to:])
	h.Sum(sum[:0])
	return sum
}

// sums has the checksums of a header, and the place of the document's.
type sums struct {
	state, document Sum
	place           span // empty: there is none
}

func (d *decoder) sumsMember(name string) any {
	switch name {
	case "state":
		return d.sumOf(&d.sums.state)
	case "document":
		return func() error {
			err := d.sumOf(&d.sums.document)()
			end := int(d.dec.InputOffset()) - len(`"`)
			d.sums.place = span{end - digits, end}
			return err
		}
	}
	return nil
}

// stateSum returns the checksum of the state; nil if data, the document, has none or was
// edited.
func (s *sums) stateSum(data []byte) (sum *Sum, edited bool) {
	switch {
	case s.place.to == 0:
		return nil, false
	case s.state == (Sum{}) || sumAround(data, s.place) != s.document:
		return nil, true
	}
	return &s.state, false
}

// compareSum compares a machine with the checksum in the document. The document is intact,
// so that a difference means that this version reads it in another way than its writer.
func (d *File) compareSum(m *fsm.Machine) error {
	if d.StateSum == nil {
		return nil
	}
	if sum := m.View().Sum(); sum.Sum != *d.StateSum {
		return fmt.Errorf("%w: the state of %s has the checksum %x, but %x was recorded when it was written: read it with "+
			"the release that wrote it, or accept the difference by rewriting the file with jq",
			fsm.ErrDiverged, sum.LSN, sum.Sum[:8], d.StateSum[:8])
	}
	return nil
}
