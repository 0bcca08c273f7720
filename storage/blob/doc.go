// Package blob writes and reads large immutable objects: a stream, compressed
// and cut into parts, and a manifest that makes them one.
//
// # Problem
//
// A bucket takes whole objects, which are held in memory, and a snapshot of a
// large queue is too long for that. A blob that was written in pieces is read whole or
// not at all, also if its writer died, and whatever happened to the pieces since.
//
// # Objects
//
//	<prefix>/part-000000     the zstd stream, all parts but the last of one size
//	<prefix>/part-000001
//	<prefix>/manifest.json   written last, when all parts are certain to be there
//
// The manifest is JSON: the sizes and checksums of the stream and of its parts, and metadata of the
// writer's own (docs/format.md).
// It stands for all of the blob: who remembers its key and its sum has named
// every byte.
//
// # Writing
//
//	Write ──▶ hash ──▶ zstd ──▶ part, full ──▶ one of two uploads ──▶ bucket
//
// A Writer holds the part that it fills and those under way, and Write waits
// when they are too many. A prefix is for one attempt: writers that start again
// take another. Then every object is written once, with PutIfAbsent, and an
// answer that was lost does no harm: the same bytes are sent again under the
// same key, and if they are there already that was us. Refusals and lost answers
// are tried again, with growing pauses, for as long as the context lives.
//
// A writer that dies leaves parts without a manifest, which no reader takes for a
// blob. Abort removes them. Parts whose manifest may still arrive are left alone, since
// that would name what is gone.
//
// # Reading
//
// A Reader fetches two parts ahead. Each part's size and sum are checked before
// anything in it is decompressed, and those of the stream at its end: who
// got io.EOF has got exactly what was written. Anything else is an error. It
// wraps ErrDamaged if the blob is not what the manifest says, ErrDamaged and
// storage.ErrNotFound if a part is gone, only storage.ErrNotFound if the
// manifest is, and none of these if the store did not answer. What
// looks damaged is read again a few times before it counts as that, since the
// damage may be on the way.
package blob
