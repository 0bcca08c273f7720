//go:build linux

package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cavaliergopher/cpio"
)

// archive is a file system in the format of the kernel. All files belong to root.
type archive struct {
	w *cpio.Writer
}

// writeArchive writes an archive to a file.
func writeArchive(file string, fill func(*archive) error) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	a := &archive{w: cpio.NewWriter(f)}
	err = fill(a)
	err = errors.Join(err, a.w.Close(), f.Close())
	if err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	return nil
}

// tree adds all files below a directory of this machine, except those that skip names.
func (a *archive) tree(root string, skip []string) error {
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		switch {
		case err != nil || name == ".":
			return err
		case slices.Contains(skip, name):
			return fs.SkipDir
		}
		return a.copy(path, name, d)
	})
}

func (a *archive) copy(path, name string, d fs.DirEntry) error {
	switch d.Type() {
	case fs.ModeDir:
		return a.dir(name)
	case fs.ModeSymlink:
		target, err := os.Readlink(path)
		if err != nil {
			return err
		}
		return a.entry(&cpio.Header{Name: name, Mode: cpio.TypeSymlink | 0o777, Size: int64(len(target))}, strings.NewReader(target))
	case 0:
		return a.file(path, name)
	}
	return nil // packages hold nothing else that a test needs
}

func (a *archive) dir(name string) error {
	return a.entry(&cpio.Header{Name: name, Mode: cpio.TypeDir | 0o755}, nil)
}

// file adds a file of this machine.
func (a *archive) file(path, name string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	return a.entry(&cpio.Header{Name: name, Mode: cpio.TypeReg | cpio.FileMode(info.Mode().Perm()), Size: info.Size()}, f)
}

func (a *archive) entry(h *cpio.Header, content io.Reader) error {
	if err := a.w.WriteHeader(h); err != nil {
		return fmt.Errorf("add %s: %w", h.Name, err)
	}
	if content == nil {
		return nil
	}
	if _, err := io.Copy(a.w, content); err != nil {
		return fmt.Errorf("add %s: %w", h.Name, err)
	}
	return nil
}
