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
//	DIR/bucket-id                        the marker: a random id
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
// is in use. That is all. A stream goes to the staged file as it comes.
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
// committed: the edit stays, the staged file is renamed (x<N+1>), and the
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
// Get does step 1 and reads the object. A reader that may not write, or must not
// (OpenReadOnly), reads the staged bytes in place of publishing them.
//
// # Which directory
//
// A mount can go away, and the directory below its mount point is then at the bucket's path; or
// another directory is moved or mounted there. A write into it would be lost, and another cluster
// that still sees the bucket would become active as well. So each operation opens the directory,
// checks that it is the bucket, and uses paths that are relative to it from then on. Nothing stays
// open between two operations, so that the file system can be unmounted.
//
// The first document brings a marker, an object with a random id. A Bucket remembers the id and
// the place of the directory: device, inode, time of birth and mount.
//
//	the marker is the one that was seen    go on, wherever it is (mounted again, a copy)
//	another marker, another place          ErrElsewhere
//	another marker, the same place         go on: emptied by hand, and begun again
//	no marker, the same place              go on: emptied by hand; the marker is made again
//	no marker, another place               ErrElsewhere
//
// A marker that is cut counts as none. A Bucket that has not seen a marker yet takes the first
// one, and marks a directory that has a document. OpenKnown is for a node that has state: it
// continues only in a directory that has one of the two. OpenDir takes an empty directory as well,
// but leaves it unmarked until the first document: a node that is added while its mount is away
// must not mark the directory below.
//
// # Links
//
// Only regular files are objects, and no path leads out of the directory (os.Root): a program that may
// write into a part of the bucket, as the producers of an inbox, cannot make a node read or write
// other files. The bucket's own path may contain symbolic links.
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
