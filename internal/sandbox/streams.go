package sandbox

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"
)

// streams are the pipes to a program. os/exec's own pipes would not do: its Wait waits
// for every process that holds them open.
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
		_, _ = s.ours[0].Write(stdin) // the program need not read it
		s.ours[0].Close()
	}()
	for i, dst := range []io.Writer{out, log} {
		go func() {
			drain(dst, s.ours[i+1])
			s.done <- struct{}{}
		}()
	}
}

// buffers pools the buffers of drain. Without the pool, the worker would allocate most
// of its memory for buffers that hardly receive any bytes.
var buffers = sync.Pool{New: func() any { return new([32 << 10]byte) }}

// drain copies src to dst until all writers have closed the pipe, or the pipe is cut.
func drain(dst io.Writer, src io.Reader) {
	buf := buffers.Get().(*[32 << 10]byte) // it has nothing else
	defer buffers.Put(buf)
	for {
		n, err := src.Read(buf[:])
		_, _ = dst.Write(buf[:n]) // neither head nor tail fails
		if err != nil {
			return
		}
	}
}

// await waits until both outputs are read to the end. It returns false if a process
// still holds a pipe open after d; it has then cut the pipes.
func (s *streams) await(d time.Duration) bool {
	late := time.After(d)
	for n := range 2 {
		select {
		case <-s.done:
		case <-late:
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
