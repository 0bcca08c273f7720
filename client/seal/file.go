package seal

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"time"

	"github.com/tink-crypto/tink-go/v2/aead"
	"github.com/tink-crypto/tink-go/v2/insecurecleartextkeyset"
	"github.com/tink-crypto/tink-go/v2/keyset"
	"github.com/tink-crypto/tink-go/v2/tink"
)

// maxRing bounds the file, in bytes: about 2000 keys.
const maxRing = 1 << 20

// file is the content of a key ring. Keys is a keyset of Tink in JSON, in the clear.
type file struct {
	Version int                  `json:"osqueue.keys"`
	Scope   string               `json:"scope"`
	Created map[string]time.Time `json:"created"` // by the decimal id of the key
	Keys    json.RawMessage      `json:"keys"`

	handle *keyset.Handle
}

const fileVersion = 1

var (
	errNoRing = errors.New("is not a key ring of osqueue")
	errOpen   = errors.New("other users can read it; run chmod 600 on it, and replace its keys if they were read")
	errLarge  = errors.New("is larger than 1 MiB")
)

// load reads a key ring.
func load(path string) (*file, stamp, error) {
	in, err := os.Open(path)
	if err != nil {
		return nil, stamp{}, fmt.Errorf("key ring: %w", err)
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return nil, stamp{}, fmt.Errorf("key ring: %w", err)
	}
	if runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		return nil, stamp{}, fmt.Errorf("key ring %s: %w", path, errOpen)
	}
	text, err := io.ReadAll(io.LimitReader(in, maxRing+1))
	switch {
	case err != nil:
		return nil, stamp{}, fmt.Errorf("key ring %s: %w", path, err)
	case len(text) > maxRing:
		return nil, stamp{}, fmt.Errorf("key ring %s: %w", path, errLarge)
	}
	f, err := parse(text)
	if err != nil {
		return nil, stamp{}, fmt.Errorf("key ring %s: %w", path, err)
	}
	return f, stampOf(info), nil
}

func parse(text []byte) (*file, error) {
	f := &file{}
	if err := json.Unmarshal(text, f); err != nil || f.Version == 0 || f.Keys == nil {
		return nil, errNoRing // the error of the decoder could quote a key
	}
	if f.Version != fileVersion {
		return nil, fmt.Errorf("has version %d, and this program knows version %d", f.Version, fileVersion)
	}
	handle, err := insecurecleartextkeyset.Read(keyset.NewJSONReader(bytes.NewReader(f.Keys)))
	if err != nil {
		return nil, errNoRing
	}
	f.handle = handle
	return f, nil
}

func (f *file) primitive() (tink.AEAD, error) { return aead.New(f.handle) }

// ids returns the ids of the keys that decrypt.
func (f *file) ids() map[uint32]bool {
	ids := make(map[uint32]bool)
	for _, k := range f.handle.KeysetInfo().GetKeyInfo() {
		ids[k.GetKeyId()] = true
	}
	return ids
}

// Key describes a key of a ring, without its secret.
type Key struct {
	ID      uint32    `json:"id"`      // unique in the ring
	Primary bool      `json:"primary"` // it encrypts; the others only decrypt
	Created time.Time `json:"created,omitzero"`
}

// Content describes a key ring, without its secrets.
type Content struct {
	Path  string `json:"path"`
	Scope string `json:"scope"` // the name that all texts of the ring are bound to
	Keys  []Key  `json:"keys"`
}

func (f *file) content(path string) Content {
	out := Content{Path: path, Scope: f.Scope}
	info := f.handle.KeysetInfo()
	for _, k := range info.GetKeyInfo() {
		id := k.GetKeyId()
		out.Keys = append(out.Keys, Key{ID: id, Primary: id == info.GetPrimaryKeyId(), Created: f.Created[idText(id)]})
	}
	return out
}

func idText(id uint32) string { return strconv.FormatUint(uint64(id), 10) }

// Describe returns the content of a key ring.
func Describe(path string) (Content, error) {
	f, _, err := load(path)
	if err != nil {
		return Content{}, err
	}
	return f.content(path), nil
}

// Create makes a key ring with one key in a new file. An empty scope means a random one.
func Create(path, scope string) (Content, error) {
	f := &file{Version: fileVersion, Scope: cmp.Or(scope, rand.Text()), Created: map[string]time.Time{}}
	return change(path, func() (*file, error) {
		if _, err := os.Lstat(path); err == nil {
			return nil, fmt.Errorf("key ring %s: %w", path, os.ErrExist)
		}
		m := keyset.NewManager()
		id, err := f.add(m)
		if err != nil {
			return nil, err
		}
		return f, f.take(m, m.SetPrimary(id))
	})
}

// Rotate adds a key to a ring. The key becomes the primary one, unless stage is set:
// then it only decrypts, until Use names it.
func Rotate(path string, stage bool) (Content, error) {
	return edit(path, func(f *file, m *keyset.Manager) error {
		id, err := f.add(m)
		if err != nil || stage {
			return err
		}
		return m.SetPrimary(id)
	})
}

// Use makes a key of the ring the primary one.
func Use(path string, id uint32) (Content, error) {
	return edit(path, func(f *file, m *keyset.Manager) error {
		if !f.ids()[id] {
			return fmt.Errorf("has no key %d", id)
		}
		return m.SetPrimary(id)
	})
}

// Remove removes a key that is not the primary one. Its texts can no longer be read.
func Remove(path string, id uint32) (Content, error) {
	return edit(path, func(f *file, m *keyset.Manager) error {
		switch {
		case !f.ids()[id]:
			return fmt.Errorf("has no key %d", id)
		case f.handle.KeysetInfo().GetPrimaryKeyId() == id:
			return fmt.Errorf("key %d is the primary one; make another key primary first", id)
		}
		delete(f.Created, idText(id))
		return m.Delete(id)
	})
}

// add adds a new key.
func (f *file) add(m *keyset.Manager) (uint32, error) {
	id, err := m.Add(aead.XAES256GCM192BitNonceKeyTemplate())
	if err != nil {
		return 0, err
	}
	if f.Created == nil {
		f.Created = make(map[string]time.Time)
	}
	f.Created[idText(id)] = time.Now().UTC().Truncate(time.Second)
	return id, nil
}

// take makes the keys of m those of the file, unless err is set.
func (f *file) take(m *keyset.Manager, err error) error {
	if err != nil {
		return err
	}
	if f.handle, err = m.Handle(); err != nil {
		return err
	}
	var buf bytes.Buffer
	if err := insecurecleartextkeyset.Write(f.handle, keyset.NewJSONWriter(&buf)); err != nil {
		return err
	}
	f.Keys = buf.Bytes()
	return nil
}

// edit changes the keys of a ring.
func edit(path string, fn func(*file, *keyset.Manager) error) (Content, error) {
	return change(path, func() (*file, error) {
		f, _, err := load(path)
		if err != nil {
			return nil, err
		}
		m := keyset.NewManagerFromHandle(f.handle)
		if err := f.take(m, fn(f, m)); err != nil {
			return nil, fmt.Errorf("key ring %s: %w", path, err)
		}
		return f, nil
	})
}

// change replaces the file by what fn returns. The temporary file next to it excludes
// other writers: a key that another writer overwrites would be lost with all its texts.
func change(path string, fn func() (*file, error)) (c Content, err error) {
	temporary := path + ".new"
	out, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		return Content{}, fmt.Errorf("key ring %s: another program changes it; if none does, remove %s", path, temporary)
	}
	if err != nil {
		return Content{}, fmt.Errorf("key ring: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(temporary))
		}
	}()
	f, err := fn()
	if err != nil {
		return Content{}, errors.Join(err, out.Close())
	}
	text, err := json.MarshalIndent(f, "", "  ")
	if err == nil {
		_, err = out.Write(append(text, '\n'))
	}
	if err = errors.Join(err, out.Sync(), out.Close()); err != nil {
		return Content{}, fmt.Errorf("key ring %s: %w", path, err)
	}
	if err := os.Rename(temporary, path); err != nil {
		return Content{}, fmt.Errorf("key ring: %w", err)
	}
	return f.content(path), syncDir(filepath.Dir(path))
}

// syncDir makes a rename last. Systems that cannot sync a directory return an error that
// does not count.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return nil //nolint:nilerr // the rename has taken place
	}
	_ = d.Sync()
	return d.Close()
}
