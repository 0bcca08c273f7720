package blob

import (
	"context"
	"io"
	"sync"

	"osqueue/storage"
)

// readAhead is how many parts are fetched beyond the one that is being read.
const readAhead = 2

// source is the compressed stream.
type source struct {
	ctx    context.Context
	bucket storage.Bucket
	prefix string
	parts  []Part

	started int            // parts whose fetch has begun
	ahead   []chan fetched // of those that were not taken yet, in order
	wg      sync.WaitGroup
	rest    []byte // of the part taken last
	err     error  // what Read has returned
}

type fetched struct {
	data []byte
	err  error
}

// Read implements io.Reader.
func (s *source) Read(p []byte) (int, error) {
	for len(s.rest) == 0 && s.err == nil {
		s.rest, s.err = s.take()
	}
	if s.err != nil {
		return 0, s.err
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

// take waits for the next part, and has others fetched meanwhile.
func (s *source) take() ([]byte, error) {
	s.fetchAhead()
	if len(s.ahead) == 0 {
		return nil, io.EOF
	}
	f := <-s.ahead[0]
	s.ahead = s.ahead[1:]
	s.fetchAhead()
	return f.data, f.err
}

func (s *source) fetchAhead() {
	for len(s.ahead) < readAhead && s.started < len(s.parts) {
		i, c := s.started, make(chan fetched, 1)
		s.wg.Go(func() {
			data, err := fetchPart(s.ctx, s.bucket, s.prefix, i, s.parts[i])
			c <- fetched{data, err}
		})
		s.ahead = append(s.ahead, c)
		s.started++
	}
}
