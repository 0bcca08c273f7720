package sandbox

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"
)

// streams are the pipes to a program. They are ours rather than os/exec's, whose
// Wait waits for everybody who holds them.
type streams struct {
	ours, theirs []*os.File
	done         chan struct{}
}

func (s *streams) open(cmd *exec.Cmd) error {
	s.done = make(chan struct{}, 3)
	for i, end := range []any{&cmd.Stdin, &cmd.Stdout, &cmd.Stderr} {
		r, w, err := os.Pipe()
		if err != nil {
			s.closeTheirs()
			s.cut()
			return fmt.Errorf("make a pipe: %w", err)
		}
		if i == 0 {
			r, w = w, r
		}
		s.ours, s.theirs = append(s.ours, r), append(s.theirs, w)
		switch end := end.(type) {
		case *io.Reader:
			*end = w
		case *io.Writer:
			*end = w
		}
	}
	return nil
}

func (s *streams) pump(stdin []byte, out, log io.Writer) {
	go func() {
		_, _ = s.ours[0].Write(stdin) // a program need not read it
		s.ours[0].Close()
	}()
	for i, dst := range []io.Writer{out, log} {
		go func() {
			drain(dst, s.ours[i+1])
			s.done <- struct{}{}
		}()
	}
}

// buffers are for drain: with one for each pipe most of what a worker allocates
// would be buffers that hardly anything was ever read into.
var buffers = sync.Pool{New: func() any { return new([32 << 10]byte) }}

// drain reads until nobody can write any more, or the pipe is cut.
func drain(dst io.Writer, src io.Reader) {
	buf := buffers.Get().(*[32 << 10]byte) //nolint:forcetypeassert // it has nothing else
	defer buffers.Put(buf)
	for {
		n, err := src.Read(buf[:])
		_, _ = dst.Write(buf[:n]) // neither head nor tail fails
		if err != nil {
			return
		}
	}
}

// await waits until all is read; false: somebody still holds a pipe after d.
func (s *streams) await(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for n := range 2 {
		select {
		case <-s.done:
		case <-timer.C:
			s.cut()
			for range 2 - n {
				<-s.done
			}
			return false
		}
	}
	s.cut()
	return true
}

func (s *streams) closeTheirs() {
	for _, f := range s.theirs {
		f.Close()
	}
}

func (s *streams) cut() {
	for _, f := range s.ours {
		f.Close()
	}
}
