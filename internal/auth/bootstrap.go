package auth

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/internal/durable"
)

// Bootstrap is the first token of a cluster, of the role admin, as the nodes have it: without
// the secret. The active leader adds it to a state that has no tokens.
type Bootstrap struct {
	ID   string
	Hash string // SHA-256 of the secret
}

// bootstrapFile is the form of a Bootstrap in a file.
type bootstrapFile struct {
	ID     string `json:"id"`
	SHA256 string `json:"sha256"` // in hex
}

// Bootstrap returns what the nodes need of a token.
func (s Secret) Bootstrap() Bootstrap { return Bootstrap{ID: s.ID, Hash: s.Hash} }

// bootstrapBytes bounds the size of the file.
const bootstrapBytes = 4 << 10

// ReadBootstrap reads the file that Write has written.
func ReadBootstrap(path string) (Bootstrap, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return Bootstrap{}, err
	}
	var f bootstrapFile
	if len(data) > bootstrapBytes {
		err = errors.New("it is too large")
	} else {
		dec := json.NewDecoder(bytes.NewReader(data))
		dec.DisallowUnknownFields()
		err = dec.Decode(&f)
	}
	if err == nil {
		err = f.check()
	}
	if err != nil {
		return Bootstrap{}, fmt.Errorf("%s is not the bootstrap.json of osqueue init: %w", path, err)
	}
	hash, _ := hex.DecodeString(f.SHA256) // checked
	return Bootstrap{ID: f.ID, Hash: string(hash)}, nil
}

func (f *bootstrapFile) check() error {
	if id, err := encoding.DecodeString(f.ID); err != nil || len(id) != idBytes {
		return errors.New("its id is not the id of a token")
	}
	if hash, err := hex.DecodeString(f.SHA256); err != nil || len(hash) != sha256.Size {
		return errors.New("its sha256 is not the hash of a token")
	}
	return nil
}

// Write writes the file for the nodes. Only its owner can read it, although it has no secret.
func (b Bootstrap) Write(path string) error {
	data, err := json.Marshal(bootstrapFile{ID: b.ID, SHA256: hex.EncodeToString([]byte(b.Hash))})
	if err != nil {
		return err
	}
	return durable.Replace(path, append(data, '\n'), secretMode)
}

// secretMode is the mode of files that only their owner may read.
const secretMode = 0o600

// Mutations add the token to the state, and record that this has happened: once all tokens are
// revoked, the first one does not come back.
func (b Bootstrap) Mutations() []*fsmpb.Mutation {
	return []*fsmpb.Mutation{
		create(&fsmpb.Token{Id: b.ID, Hash: []byte(b.Hash), Role: uint32(fsm.RoleAdmin), Name: "first admin", MadeBy: "init"}),
		Mark(fsm.BootstrapMark, "init"),
	}
}

// Mark returns the mutation that makes a mark.
func Mark(id, madeBy string) *fsmpb.Mutation {
	return create(&fsmpb.Token{Id: id, Hash: make([]byte, sha256.Size), Role: uint32(fsm.RoleMark), MadeBy: madeBy})
}

func create(t *fsmpb.Token) *fsmpb.Mutation {
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_CreateToken{CreateToken: &fsmpb.CreateToken{Token: t}}}
}

// WriteSecret writes the text of a token to a file that only its owner can read.
func (s Secret) WriteSecret(path string) error {
	return durable.Replace(path, []byte(s.Text+"\n"), secretMode)
}

// ReadSecret reads the token in a file.
func ReadSecret(path string) (Secret, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return Secret{}, err
	}
	s, err := Parse(string(bytes.TrimSpace(data)))
	if err != nil {
		return Secret{}, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}
