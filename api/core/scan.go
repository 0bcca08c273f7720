package core

import (
	"encoding/json"
	"math"
	"unsafe"

	v1 "osqueue/client/api/v1"
	"osqueue/internal/jsonscan"
)

// The bodies of the busiest requests are scanned without reflection. A scan accepts only what
// the general decoder accepts, with the same values (FuzzScan), and leaves the rest to it.

// scanned reads a body, which is UTF-8, into v without the general decoder, if it can. Otherwise
// v may be filled in part. The values in v share the memory of body.
func scanned(body []byte, v any) bool {
	s := jsonscan.New(body)
	var ok bool
	switch v := v.(type) {
	case *v1.NewJob:
		ok = scanNewJob(&s, v)
	case *v1.Batch:
		ok = scanBatch(&s, v)
	case *v1.Claim:
		ok = scanClaim(&s, v)
	case *v1.Complete:
		ok = scanComplete(&s, v)
	case *v1.CompleteBatch:
		ok = scanCompleteBatch(&s, v)
	}
	return ok && s.End()
}

func scanNewJob(s *jsonscan.Scanner, j *v1.NewJob) bool {
	var seen fields
	return s.Object(func(name []byte) bool {
		switch string(name) {
		case "id":
			return seen.first(0) && scanText(s, &j.ID)
		case "type":
			return seen.first(1) && scanText(s, &j.Type)
		case "payload":
			return seen.first(2) && scanRaw(s, &j.Payload)
		case "priority":
			return seen.first(3) && scanInt32(s, &j.Priority)
		case "runAt":
			return seen.first(4) && scanInt(s, &j.RunAt)
		case "delayMs":
			return seen.first(5) && scanInt(s, &j.DelayMs)
		case "maxAttempts":
			j.MaxAttempts = new(int32)
			return seen.first(6) && scanInt32(s, j.MaxAttempts)
		case "leaseMs":
			return seen.first(7) && scanInt(s, &j.LeaseMs)
		case "timeoutMs":
			return seen.first(8) && scanInt(s, &j.TimeoutMs)
		case "group":
			return seen.first(9) && scanText(s, &j.Group)
		case "tags":
			return seen.first(10) && scanTexts(s, &j.Tags)
		case "uniqueKey":
			return seen.first(11) && scanText(s, &j.UniqueKey)
		case "headers":
			return seen.first(12) && scanHeaders(s, &j.Headers)
		}
		return false
	})
}

func scanBatch(s *jsonscan.Scanner, b *v1.Batch) bool {
	var seen fields
	return s.Object(func(name []byte) bool {
		if string(name) != "jobs" || !seen.first(0) {
			return false
		}
		b.Jobs = []v1.NewJob{}
		return s.Array(func() bool {
			b.Jobs = append(b.Jobs, v1.NewJob{})
			return scanNewJob(s, &b.Jobs[len(b.Jobs)-1])
		})
	})
}

func scanClaim(s *jsonscan.Scanner, c *v1.Claim) bool {
	var seen fields
	return s.Object(func(name []byte) bool {
		switch string(name) {
		case "workerId":
			c.WorkerID = new(string)
			return seen.first(0) && scanText(s, c.WorkerID)
		case "types":
			return seen.first(1) && scanTexts(s, &c.Types)
		case "max":
			c.Max = new(int32)
			return seen.first(2) && scanInt32(s, c.Max)
		case "waitMs":
			return seen.first(3) && scanInt(s, &c.WaitMs)
		case "leaseMs":
			return seen.first(4) && scanInt(s, &c.LeaseMs)
		case "requestId":
			return seen.first(5) && scanText(s, &c.RequestID)
		}
		return false
	})
}

func scanComplete(s *jsonscan.Scanner, c *v1.Complete) bool {
	var seen fields
	return s.Object(func(name []byte) bool {
		switch string(name) {
		case "workerId":
			c.WorkerID = new(string)
			return seen.first(0) && scanText(s, c.WorkerID)
		case "token":
			return seen.first(1) && scanToken(s, &c.Token)
		case "result":
			return seen.first(2) && scanRaw(s, &c.Result)
		case "log":
			return seen.first(3) && scanText(s, &c.Log)
		case "claim":
			c.Claim = new(v1.NextClaim)
			return seen.first(4) && scanNextClaim(s, c.Claim)
		}
		return false
	})
}

func scanCompleteBatch(s *jsonscan.Scanner, c *v1.CompleteBatch) bool {
	var seen fields
	return s.Object(func(name []byte) bool {
		switch string(name) {
		case "workerId":
			c.WorkerID = new(string)
			return seen.first(0) && scanText(s, c.WorkerID)
		case "jobs":
			c.Jobs = []v1.CompleteLease{}
			return seen.first(1) && s.Array(func() bool {
				c.Jobs = append(c.Jobs, v1.CompleteLease{})
				return scanCompleteLease(s, &c.Jobs[len(c.Jobs)-1])
			})
		case "claim":
			c.Claim = new(v1.NextClaim)
			return seen.first(2) && scanNextClaim(s, c.Claim)
		}
		return false
	})
}

func scanCompleteLease(s *jsonscan.Scanner, c *v1.CompleteLease) bool {
	var seen fields
	return s.Object(func(name []byte) bool {
		switch string(name) {
		case "jobId":
			return seen.first(0) && scanText(s, &c.JobID)
		case "token":
			return seen.first(1) && scanToken(s, &c.Token)
		case "result":
			return seen.first(2) && scanRaw(s, &c.Result)
		case "log":
			return seen.first(3) && scanText(s, &c.Log)
		}
		return false
	})
}

func scanNextClaim(s *jsonscan.Scanner, c *v1.NextClaim) bool {
	var seen fields
	return s.Object(func(name []byte) bool {
		switch string(name) {
		case "requestId":
			return seen.first(0) && scanText(s, &c.RequestID)
		case "types":
			return seen.first(1) && scanTexts(s, &c.Types)
		case "max":
			c.Max = new(int32)
			return seen.first(2) && scanInt32(s, c.Max)
		case "leaseMs":
			return seen.first(3) && scanInt(s, &c.LeaseMs)
		}
		return false
	})
}

// fields is the set of the fields that an object has had.
type fields uint32

// first adds field i and reports whether it was missing.
func (f *fields) first(i uint) bool {
	was := *f
	*f |= 1 << i
	return *f != was
}

func scanText(s *jsonscan.Scanner, into *string) bool {
	text, ok := s.Text()
	*into = shared(text)
	return ok
}

func scanTexts(s *jsonscan.Scanner, into *[]string) bool {
	*into = []string{}
	return s.Array(func() bool {
		text, ok := s.Text()
		*into = append(*into, shared(text))
		return ok
	})
}

// scanHeaders leaves a name that occurs twice to the general decoder.
func scanHeaders(s *jsonscan.Scanner, into *map[string]string) bool {
	all := make(map[string]string)
	*into = all
	return s.Object(func(name []byte) bool {
		if _, twice := all[string(name)]; twice {
			return false
		}
		text, ok := s.Text()
		all[shared(name)] = shared(text)
		return ok
	})
}

// shared returns a text of the body without a copy: the body does not change any more.
func shared(text []byte) string {
	return unsafe.String(unsafe.SliceData(text), len(text)) //nolint:gosec // text does not change
}

func scanRaw(s *jsonscan.Scanner, into *json.RawMessage) (ok bool) {
	*into, ok = s.Raw()
	return ok
}

func scanInt(s *jsonscan.Scanner, into *int64) (ok bool) {
	*into, ok = s.Int()
	return ok
}

func scanInt32(s *jsonscan.Scanner, into *int32) bool {
	n, ok := s.Int()
	*into = int32(n)
	return ok && n >= math.MinInt32 && n <= math.MaxInt32
}

func scanToken(s *jsonscan.Scanner, into *uint64) bool {
	n, ok := s.Int()
	*into = uint64(n)
	return ok && n >= 0
}
