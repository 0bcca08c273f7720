package serve

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
)

// auditMax is the size at which the audit log moves to FILE.1, which it replaces. If it cannot, it is
// tried again when the file has grown by auditRetry.
const (
	auditMax   = 64 << 20
	auditRetry = 1 << 20
)

// auditFile is the file of an audit log. One goroutine uses it.
type auditFile struct {
	path string // "": out is no regular file, or stdout, and never moves
	out  io.WriteCloser
	size int64
	move int64 // the size at which the file moves
	torn bool  // the last line has no end
}

// openAuditFile opens a file for appending. A named pipe without a reader is an error: it would
// block the node.
func openAuditFile(path string) (*auditFile, error) {
	f := &auditFile{path: path}
	if err := f.open(); err != nil {
		return nil, err
	}
	return f, nil
}

func (f *auditFile) open() error {
	out, err := os.OpenFile(f.path, os.O_CREATE|os.O_WRONLY|os.O_APPEND|syscall.O_NONBLOCK, 0o600)
	if errors.Is(err, syscall.ENXIO) {
		return fmt.Errorf("%s is a pipe that no program reads: start the reader first", f.path)
	}
	if err != nil {
		return err
	}
	info, err := out.Stat()
	if err != nil {
		return errors.Join(err, out.Close())
	}
	f.out, f.size, f.move, f.torn = out, 0, auditMax, false
	if !info.Mode().IsRegular() {
		f.path = ""
		return nil
	}
	f.size, f.torn = info.Size(), !endsLine(f.path, info.Size())
	return nil
}

// endsLine reports whether a file of a size is empty or ends with a whole line. A process that dies
// may leave a part of one. A file that cannot be read counts as whole.
func endsLine(path string, size int64) bool {
	if size == 0 {
		return true
	}
	f, err := os.Open(path)
	if err != nil {
		return true
	}
	defer f.Close()
	last := make([]byte, 1)
	_, err = f.ReadAt(last, size-1)
	return err != nil || last[0] == '\n'
}

// append writes lines, and ends a line before them that was not written whole. It returns the
// number of lines that were written whole.
func (f *auditFile) append(lines [][]byte) (whole int, err error) {
	buf := make([]byte, 0, 4<<10)
	if f.torn {
		buf = append(buf, '\n')
	}
	var ends []int
	for _, line := range lines {
		buf = append(buf, line...)
		ends = append(ends, len(buf))
	}
	if f.path != "" && f.size > 0 && f.size+int64(len(buf)) > f.move {
		err = f.rotate()
	}
	n, writeErr := f.out.Write(buf)
	f.size += int64(n)
	for whole < len(ends) && ends[whole] <= n {
		whole++
	}
	if n > 0 {
		f.torn = buf[n-1] != '\n'
	}
	return whole, errors.Join(err, writeErr)
}

// rotate begins a new file. After an error the old one grows.
func (f *auditFile) rotate() error {
	old := f.out
	err := os.Rename(f.path, f.path+".1")
	if err == nil {
		err = f.open()
	}
	if err != nil {
		f.move = f.size + auditRetry
		return fmt.Errorf("start a new file (the old one becomes %s.1): %w; until then the file grows", f.path, err)
	}
	return old.Close()
}
