package membership

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"osqueue/internal/host"

	"github.com/hashicorp/raft"
)

// instanceFile contains the server id, name~instance. The instance is created with the
// data directory, so a node that lost its disk becomes another server: it cannot vote a
// second time under its old id.

const instanceFile = "instance"

// HasID reports whether a data directory has a server id: a node has run on it before.
func HasID(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, instanceFile))
	return err == nil
}

// LoadID returns the server id in a data directory. If there is none, it creates one as
// NewID does. It returns an error if the directory belongs to a node of another name.
func LoadID(dir, name string, before func(raft.ServerID) error) (raft.ServerID, error) {
	id, err := ReadID(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return NewID(dir, name, before)
	}
	if err != nil {
		return "", err
	}
	if NodeName(id) != name {
		return "", fmt.Errorf("the data directory %s belongs to node %q, not to %q: give the right --name or another --data",
			dir, NodeName(id), name)
	}
	return id, nil
}

// ReadID returns the server id in a data directory that has one.
func ReadID(dir string) (raft.ServerID, error) {
	path := filepath.Join(dir, instanceFile)
	data, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read the node's identity: %w", err)
	}
	id, ok := parseIdentity(data)
	if !ok {
		return "", fmt.Errorf("%s is damaged: it must contain NAME~INSTANCE; restore the file from a copy, or move the data "+
			"directory away and start the node, which then rejoins the cluster", path)
	}
	return id, nil
}

// NewID creates a server id in a data directory. It is durable when NewID returns, so
// before raft writes anything. NewID calls before with the id first, and writes no id if
// before fails.
func NewID(dir, name string, before func(raft.ServerID) error) (raft.ServerID, error) {
	id := RandomID(name)
	if err := before(id); err != nil {
		return "", err
	}
	if err := host.WriteFile(filepath.Join(dir, instanceFile), string(id)+"\n"); err != nil {
		return "", fmt.Errorf("write the node's identity: %w", err)
	}
	return id, nil
}

// RandomID returns a server id with a random instance, of 16 hexadecimal digits.
func RandomID(name string) raft.ServerID {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand ends the program instead
	return raft.ServerID(name + "~" + hex.EncodeToString(b[:]))
}

var namePattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)

// ValidName reports whether a node may have this name.
func ValidName(name string) bool { return namePattern.MatchString(name) }

// parseIdentity returns the server id in the content of an instance file. ok is false for
// content that is not NAME~INSTANCE, such as a truncated file.
func parseIdentity(data []byte) (id raft.ServerID, ok bool) {
	text := strings.TrimSpace(string(data))
	name, instance, found := strings.Cut(text, "~")
	return raft.ServerID(text), found && namePattern.MatchString(name) && instancePattern.MatchString(instance)
}

// instancePattern matches the instance of a server id: RandomID returns 16
// hexadecimal digits.
var instancePattern = regexp.MustCompile(`^[0-9A-Za-z._-]+$`)

// NodeName returns the name part of a server id.
func NodeName(id raft.ServerID) string {
	name, _, _ := strings.Cut(string(id), "~")
	return name
}
