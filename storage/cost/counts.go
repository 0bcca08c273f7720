package cost

import (
	"osqueue/storage"
	"osqueue/storage/metered"
)

// Counts has the use of a bucket: requests by operation, and bytes.
type Counts struct {
	Gets     uint64
	Creates  uint64 // PutIfAbsent
	Replaces uint64 // PutIfMatch
	Lists    uint64 // pages of listings
	Deletes  uint64

	BytesRead    uint64
	BytesWritten uint64 // offered, whether the store took them or not
}

// ByOp returns the requests by the name of the operation.
func (c Counts) ByOp() map[string]uint64 {
	return map[string]uint64{
		string(storage.OpGet):         c.Gets,
		string(storage.OpPutIfAbsent): c.Creates,
		string(storage.OpPutIfMatch):  c.Replaces,
		string(storage.OpList):        c.Lists,
		string(storage.OpDelete):      c.Deletes,
	}
}

// listPage is the number of objects in one page of a listing of S3 and GCS. Each page is
// one request.
const listPage = 1000

// add counts one operation with any outcome: a store charges for failed conditions, and a
// request without an answer may have arrived.
func (c *Counts) add(o metered.Observation) {
	n := uint64(max(o.Bytes, 0))
	switch o.Op {
	case storage.OpGet:
		c.Gets++
		c.BytesRead += n
	case storage.OpPutIfAbsent:
		c.Creates++
		c.BytesWritten += n
	case storage.OpPutIfMatch:
		c.Replaces++
		c.BytesWritten += n
	case storage.OpList:
		c.Lists += 1 + uint64(max(o.Listed-1, 0))/listPage
	case storage.OpDelete:
		c.Deletes++
	}
}

// times returns n times c.
func (c Counts) times(n uint64) Counts {
	return Counts{
		Gets: n * c.Gets, Creates: n * c.Creates, Replaces: n * c.Replaces, Lists: n * c.Lists, Deletes: n * c.Deletes,
		BytesRead: n * c.BytesRead, BytesWritten: n * c.BytesWritten,
	}
}

// requests returns the number of all requests.
func (c Counts) requests() uint64 { return c.Gets + c.Creates + c.Replaces + c.Lists + c.Deletes }

func (c *Counts) plus(d *Counts) {
	c.Gets += d.Gets
	c.Creates += d.Creates
	c.Replaces += d.Replaces
	c.Lists += d.Lists
	c.Deletes += d.Deletes
	c.BytesRead += d.BytesRead
	c.BytesWritten += d.BytesWritten
}
