package admin

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"osqueue/internal/auth/certs"
	"osqueue/internal/durable"
)

// copies writes the directories of --copy-to.
func (in *initialization) copies() error {
	if in.copyTo == "" {
		return nil
	}
	for _, name := range in.names {
		if err := in.copyNode(name); err != nil {
			return fmt.Errorf("node %s: %w", name, err)
		}
	}
	for _, name := range in.others {
		dir := filepath.Join(in.copyTo, name)
		if err := in.copyFiles(dir, certs.CAFile, name+tokenSuffix); err != nil {
			return fmt.Errorf("token %s: %w", name, err)
		}
	}
	return nil
}

// copyNode copies what a node needs. It keeps a certificate that ends later: the node has
// renewed it by itself.
func (in *initialization) copyNode(name string) error {
	dir := filepath.Join(in.copyTo, name)
	files := []string{certs.CAFile, bootstrapName}
	there, err := certs.ReadList(filepath.Join(dir, name+".crt"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	ours, err := certs.ReadList(filepath.Join(in.dir, name+".crt"))
	if err != nil {
		return err
	}
	if there == nil || ours[0].NotAfter.After(there[0].NotAfter) {
		// The key first: a node that reads between the two keeps its certificate.
		files = append(files, name+".key", name+".crt")
	}
	return in.copyFiles(dir, files...)
}

// copyFiles copies files, with their modes, unless the copies are the same.
func (in *initialization) copyFiles(dir string, names ...string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for _, name := range names {
		from, to := filepath.Join(in.dir, name), filepath.Join(dir, name)
		data, err := os.ReadFile(from)
		if err != nil {
			return err
		}
		if have, err := os.ReadFile(to); err == nil && bytes.Equal(have, data) {
			continue
		}
		info, err := os.Stat(from)
		if err != nil {
			return err
		}
		if err := durable.Replace(to, data, info.Mode().Perm()); err != nil {
			return err
		}
	}
	return nil
}
