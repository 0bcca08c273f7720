// Package file keeps a bucket in a directory: one file an object, safe for any
// number of processes on one machine, and on a network file system that does
// rename, link and symlink atomically. No process ever waits for another one.
//
// # What is on disk
//
//	DIR/queue.json                       the object's bytes, and nothing else
//	DIR/.osqueue/chain/.queue.json/      the chain of an object that was replaced
//	    v00000000000000000007            number 7 is taken (a symbolic link)
//	    d00000000000000000008-NONCE      bytes that want to be number 8
//	DIR/.osqueue/tmp/                    files being written, files being removed
//	DIR/.osqueue/lock                    a file that keeps older releases out
//
// An object's file is exactly the object: people read it with jq, and a copy
// of the directory made by any tool is a copy of the bucket. Everything below
// .osqueue may be removed while no process runs.
//
// # Versions
//
// A version is the SHA-256 of the object's bytes. The same bytes bring the same
// version back, as on S3 (storage.Version). An edit by a person, cp or a
// restored backup is another version because its bytes are others.
//
// # Writes
//
// A create gives the staged file its name by link(2), which fails if the name
// is in use. That is all.
//
// A replacement is a compare-and-swap on the chain:
//
//  1. read the chain's highest number N, and finish its write if it is not (4)
//  2. read the object; stop with Conflict unless it has the version; then stage
//     the new bytes as d<N+1>-NONCE and fsync them
//  3. make the symbolic link v<N+1> → NONCE and the hash of the replaced bytes.
//     One of any number of writers can: the others get EEXIST, a Conflict. This
//     is the commit. fsync the chain's directory
//  4. publish: rename d<N+1>-NONCE onto the object, fsync its directory, and
//     report Committed
//
// A writer may be frozen (SIGSTOP, a paused container) or killed after any of
// these, for any time. After 2 it has left a file that the next write removes.
// After 3, the next reader or writer finds the staged file and does 4 itself.
// The number N+2 can only be taken by a writer that has seen to this, so that
// d<N+1> is gone by then: a writer that continues late has nothing to rename, and
// can never put an older version over a newer one.
//
// The publisher first checks that the object still has the bytes that are to be
// replaced. If it has not, another program changed it after the write was
// committed: the edit stays, the staged file is put aside (x<N+1>), and the
// writer reports Unknown. An edit between that check and the rename, some ten
// microseconds, is not seen.
//
// Numbers stay taken for 64 more writes, so that a writer that continues late
// meets EEXIST. One that continues even later may get its number; it then finds
// that the number before is missing, or that the highest is too far ahead, and
// reports Unknown. Readers look at the highest number only.
//
// A Delete moves the chain away and then removes the object; a new chain begins
// with a number made of the time, so that no number comes back. The Delete repeats both
// until there is no chain after it: a replacement that begins at the same time cannot put
// its bytes in the place of an object that was removed.
//
// A chain's directory without symbolic links (a copy made without them) has no committed
// writes: the next replacement makes a first link in it. Files named like links are none.
//
// # Readers
//
// Get does step 1 and reads the object. A reader that may not write reads
// the staged bytes in place of publishing them.
//
// # Older releases
//
// Releases that locked the keys (flock) wrote version cards below
// .osqueue/version, which this release does not read. The first write of this
// release that replaces an object which this Bucket has not created itself (a
// node's first write as the active leader, a repair) takes all of their locks, and puts a
// file in the place of the directory of the locks. Until then this release creates and
// deletes objects, and replaces its own, under the older release's lock of the key: a node
// that starts (storage/probe) or stores a snapshot does not stop a leader of an older
// release. From then on a process of such a release cannot write
// here and does not start here: its error names DIR/.osqueue/lock and "not a
// directory". To go back to one, stop all processes and remove .osqueue.
//
// # Failure
//
// An error before the commit means that nothing was written, one after it that
// the write may or may not survive a power cut; both are reported as Unknown.
// A failed fsync is never repeated: the kernel forgets the pages it could not
// write, and a second fsync would lie. A directory whose fsync failed is
// remembered: its objects are neither read nor written until a change of it has
// been synced, so that no reader takes for durable what is not.
package file
