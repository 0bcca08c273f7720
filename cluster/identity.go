package cluster

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

	"github.com/hashicorp/raft"
)

// instanceFile contains the server id, name~instance. The instance is created with the
// data directory, so a node that lost its disk becomes another server: it cannot vote a
// second time under its old id.

const instanceFile = "instance"

// HasRun reports whether a node has run on this configuration's data directory before.
func (c *Config) HasRun() bool {
	_, err := os.Stat(filepath.Join(c.DataDir, instanceFile))
	return err == nil && c.RaftLog != RaftLogMemory
}

func loadServerID(cfg *Config) (raft.ServerID, error) {
	if cfg.ground != nil {
		return cfg.ground.id, nil
	}
	if cfg.RaftLog == RaftLogMemory {
		return serverID(cfg.Name, randomID()), nil
	}
	path := filepath.Join(cfg.DataDir, instanceFile)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return newInstance(cfg, path)
	}
	if err != nil {
		return "", fmt.Errorf("read the node's identity: %w", err)
	}
	id, ok := parseIdentity(data)
	if !ok {
		return "", fmt.Errorf("%s is damaged: it does not hold NAME~INSTANCE; restore the file from a copy, "+
			"or move the data directory away and start the node empty, and it rejoins the cluster", path)
	}
	if nodeName(id) != cfg.Name {
		return "", fmt.Errorf("the data directory %s belongs to node %q, not to %q: give the right --name or another --data",
			cfg.DataDir, nodeName(id), cfg.Name)
	}
	return id, nil
}

// parseIdentity returns the server id in the content of an instance file. ok is false for
// content that is not NAME~INSTANCE, such as a truncated file.
func parseIdentity(data []byte) (id raft.ServerID, ok bool) {
	text := strings.TrimSpace(string(data))
	name, instance, found := strings.Cut(text, "~")
	return raft.ServerID(text), found && namePattern.MatchString(name) && instancePattern.MatchString(instance)
}

// instancePattern matches the instance of a server id: randomID returns 16 hexadecimal
// digits.
var instancePattern = regexp.MustCompile(`^[0-9A-Za-z._-]+$`)

// newInstance creates an identity. It is durable before raft writes anything.
func newInstance(cfg *Config, path string) (raft.ServerID, error) {
	id := serverID(cfg.Name, randomID())
	if err := writeWitness(filepath.Join(filepath.Dir(path), witnessFile), witnessed{Server: id}); err != nil {
		return "", err
	}
	if err := writeFileSync(path, string(id)+"\n"); err != nil {
		return "", fmt.Errorf("write the node's identity: %w", err)
	}
	return id, nil
}

func serverID(name, instance string) raft.ServerID { return raft.ServerID(name + "~" + instance) }

// nodeName returns the name part of a server id.
func nodeName(id raft.ServerID) string {
	name, _, _ := strings.Cut(string(id), "~")
	return name
}

// randomID returns 64 random bits in hexadecimal.
func randomID() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand ends the program instead
	return hex.EncodeToString(b[:])
}

// writeFileSync replaces the file at path by one with the given content. When it returns
// nil the content is durable; a crash leaves the old file or the new one.
func writeFileSync(path, content string) error {
	tmp := path + ".tmp"
	f, err := os.OpenFile(tmp, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(content)
	err = errors.Join(err, f.Sync(), f.Close())
	if err != nil {
		return err
	}
	if err := os.Rename(tmp, path); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
