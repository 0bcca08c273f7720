package auth

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"runtime"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/internal/host"
)

// Bootstrap is the first tokens of a cluster as the nodes have them: without the secrets. The
// active leader adds them to a state that has no tokens.
type Bootstrap struct {
	ID     string // of the first admin token
	Hash   string // SHA-256 of its secret
	Others []FirstToken
	Nodes  []string // names of the nodes for which init has made certificates
}

// FirstToken is a further token of a Bootstrap.
type FirstToken struct {
	ID   string
	Hash string // SHA-256 of the secret
	Role fsm.Role
	Name string // for people
}

// bootstrapFile is the form of a Bootstrap in a file.
type bootstrapFile struct {
	ID     string       `json:"id"`
	SHA256 string       `json:"sha256"` // in hex
	Tokens []firstToken `json:"tokens,omitempty"`
	Nodes  []string     `json:"nodes,omitempty"`
}

type firstToken struct {
	ID     string `json:"id"`
	SHA256 string `json:"sha256"` // in hex
	Role   string `json:"role"`
	Name   string `json:"name"`
}

// Bootstrap returns what the nodes need of an admin token.
func (s Secret) Bootstrap() Bootstrap { return Bootstrap{ID: s.ID, Hash: s.Hash} }

// First returns what the nodes need of a further token.
func (s Secret) First(role fsm.Role, name string) FirstToken {
	return FirstToken{ID: s.ID, Hash: s.Hash, Role: role, Name: name}
}

// The bounds of the file.
const (
	bootstrapBytes = 16 << 10
	firstTokensMax = 32
	firstNameMax   = 64
)

// ReadBootstrap reads the file that Write has written. All may read it, because it has hashes of random secrets.
func ReadBootstrap(path string) (Bootstrap, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return Bootstrap{}, err
	}
	if info, err := os.Stat(path); err != nil || runtime.GOOS != "windows" && info.Mode().Perm()&0o002 != 0 {
		return Bootstrap{}, cmp.Or(err, fmt.Errorf("all users of this machine may replace %s, and so become admins of the cluster: chmod 600", path))
	}
	var f bootstrapFile
	if len(data) > bootstrapBytes {
		err = fmt.Errorf("it has %d bytes; at most %d are allowed", len(data), bootstrapBytes)
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
	return f.bootstrap(), nil
}

func (f *bootstrapFile) bootstrap() Bootstrap {
	b := Bootstrap{ID: f.ID, Hash: unhex(f.SHA256), Nodes: f.Nodes}
	for _, t := range f.Tokens {
		role, _ := fsm.ParseRole(t.Role) // checked
		b.Others = append(b.Others, FirstToken{ID: t.ID, Hash: unhex(t.SHA256), Role: role, Name: t.Name})
	}
	return b
}

// unhex decodes text that was checked.
func unhex(text string) string {
	data, _ := hex.DecodeString(text)
	return string(data)
}

func (f *bootstrapFile) check() error {
	if err := checkFirst(f.ID, f.SHA256); err != nil {
		return err
	}
	if len(f.Tokens) > firstTokensMax {
		return fmt.Errorf("it has %d further tokens; at most %d are allowed", len(f.Tokens), firstTokensMax)
	}
	seen := map[string]bool{f.ID: true}
	for _, t := range f.Tokens {
		if err := checkFirst(t.ID, t.SHA256); err != nil {
			return err
		}
		if role, ok := fsm.ParseRole(t.Role); !ok || role == fsm.RoleMark {
			return fmt.Errorf("role %q: use producer, worker, reader, operator or admin", t.Role)
		}
		if len(t.Name) > firstNameMax {
			return fmt.Errorf("the name of token %s has %d bytes; at most %d are allowed", t.ID, len(t.Name), firstNameMax)
		}
		if seen[t.ID] {
			return fmt.Errorf("token %s occurs twice", t.ID)
		}
		seen[t.ID] = true
	}
	return nil
}

func checkFirst(id, sum string) error {
	if !IsID(id) {
		return fmt.Errorf("the id %.40q of a token is damaged", id)
	}
	if hash, err := hex.DecodeString(sum); err != nil || len(hash) != sha256.Size {
		return fmt.Errorf("the sha256 of token %s is damaged", id)
	}
	return nil
}

// Write writes the file for the nodes. Only its owner can read it, although it has no secret.
func (b Bootstrap) Write(path string) error {
	f := bootstrapFile{ID: b.ID, SHA256: hex.EncodeToString([]byte(b.Hash)), Nodes: b.Nodes}
	for _, t := range b.Others {
		f.Tokens = append(f.Tokens, firstToken{ID: t.ID, SHA256: hex.EncodeToString([]byte(t.Hash)), Role: t.Role.String(), Name: t.Name})
	}
	data, err := json.Marshal(f)
	if err != nil {
		return err
	}
	return host.ReplaceFile(path, append(data, '\n'), secretMode)
}

// secretMode is the mode of files that only their owner may read.
const secretMode = 0o600

// Mutations add the tokens to the state, and record that this has happened: once all tokens are
// revoked, the first ones do not come back.
func (b Bootstrap) Mutations() []*fsmpb.Mutation {
	ops := []*fsmpb.Mutation{
		create(&fsmpb.Token{Id: b.ID, Hash: []byte(b.Hash), Role: uint32(fsm.RoleAdmin), Name: "first admin", MadeBy: "init"}),
		Mark(fsm.BootstrapMark, "init"),
	}
	for _, t := range b.Others {
		ops = append(ops, create(&fsmpb.Token{Id: t.ID, Hash: []byte(t.Hash), Role: uint32(t.Role), Name: t.Name, MadeBy: "init"}))
	}
	return ops
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
	return host.ReplaceFile(path, []byte(s.Text+"\n"), secretMode)
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
