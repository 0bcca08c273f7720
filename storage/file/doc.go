// Package file keeps a bucket in a directory: one file an object, safe for any
// number of processes on one machine (and on a network file system that does
// flock and rename properly).
//
// # What is on disk
//
//	DIR/queue.json                    the object's bytes, and nothing else
//	DIR/.osqueue/version/queue.json   its version card: which bytes are which version
//	DIR/.osqueue/lock/00 … 3f         lock files, chosen by a hash of the key
//	DIR/.osqueue/tmp/                 files being written
//
// An object's file is exactly the object: people read it with jq, and a copy
// of the directory made by any tool is a copy of the bucket.
//
// # Versions
//
// A version is a counter and a random nonce, so it never comes back, not even
// when the same bytes do. It cannot live in the object's file without spoiling
// it, and no file system call replaces two files at once. So the card does not
// claim what the current version is. It says which version certain bytes have,
// by their SHA-256, for two sets of bytes: the ones being replaced and the ones
// replacing them. The object's own bytes then decide.
//
// A write holds the key's lock and goes:
//
//  1. stage the new bytes in tmp and fsync them (before taking the lock)
//  2. read the object and its card; stop with Conflict unless the condition holds
//  3. replace the card by {current, next} (write tmp, fsync, rename)
//  4. rename the staged file onto the object: this is the commit
//  5. fsync both directories, and only then report Committed
//
// A SIGKILL before 4 leaves the old bytes, which the card still names by the
// old version; one after 4 leaves the new bytes, named by the new version. No
// line leaves anything to repair. What remains in tmp is removed by a later
// Open. After a power cut the directories may have kept 3 without 4, or 4
// without 3; the first is as above, and in the second case the bytes appear
// as edited from outside (below): their version differs from every version
// handed out before, which costs a Conflict and loses nothing.
//
// Bytes that the card does not name were put there by somebody else: a person
// with an editor, cp, a restored backup. Their version is x- and their hash.
// So an edit is always noticed, whether the editor overwrites or renames. Only
// such foreign bytes can bring the same version back, as on S3. What nobody can
// prevent is an edit that falls between 2 and 4, some hundred microseconds.
//
// The alternatives: an extended attribute is atomic with the rename, but is
// missing on many mounts; a version inside the file is seen by every reader of
// the bucket; modification time and inode number are reused within one tick of
// the kernel's clock.
//
// # Readers
//
// Get takes no lock, so a stopped writer does not stop readers. It reads the
// object, then the card. Every writer replaces the card first, so a card that
// was read after the object names its bytes, unless more than one write went
// by in between; then the card has changed as well and Get tries again. When
// the card is the same before and after, the bytes are foreign.
//
// # Locks
//
// The locks are flock(2) on files that are never removed. Every operation opens
// its own descriptor, because one descriptor's locks do not exclude its own
// process. Waiting is a poll, so that a deadline ends it: flock cannot be
// interrupted otherwise. A process that is stopped (SIGSTOP) while it holds a
// lock blocks the writers of 1/64 of the keys until it goes on or dies.
//
// # Failure
//
// An error before the rename means that nothing was written, one after it that
// the write may or may not survive a power cut; both are reported as Unknown.
// A failed fsync is never repeated: the kernel forgets the pages it could not
// write, and a second fsync would lie.
package file
