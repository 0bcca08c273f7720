package contexts

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
)

// Context is the way to reach one cluster.
type Context struct {
	Servers []string `json:"servers"`        // as host:port or URLs
	CA      string   `json:"ca,omitzero"`    // certificates of the CA, PEM
	Token   string   `json:"token,omitzero"` // access token
}

// ErrNone is wrapped by the error about a context that does not exist.
var ErrNone = errors.New("does not exist")

// fileMax bounds the size of a context, in bytes.
const fileMax = 1 << 20

// Store is the directory with the contexts of one user. The zero value has none.
type Store struct {
	dir string
}

// Of returns the store of the user that the environment describes. Without a home directory it
// is empty.
func Of(getenv func(string) string) Store {
	base := getenv("XDG_CONFIG_HOME")
	if home := getenv("HOME"); !filepath.IsAbs(base) && home != "" {
		base = filepath.Join(home, ".config")
	}
	if !filepath.IsAbs(base) {
		return Store{}
	}
	return Store{dir: filepath.Join(base, "osqueue")}
}

// Dir returns the directory of the store, or "".
func (s Store) Dir() string { return s.dir }

var nameRule = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// CheckName returns an error for a name that a context cannot have.
func CheckName(name string) error {
	if nameRule.MatchString(name) {
		return nil
	}
	return fmt.Errorf("context name %q: use 1 to 64 letters, digits, dots, dashes and underscores, a letter or digit first", name)
}

func (s Store) file(name string) string { return filepath.Join(s.dir, "contexts", name+".json") }

func (s Store) currentFile() string { return filepath.Join(s.dir, "current") }

// errNoHome is the error of writes to an empty store.
var errNoHome = errors.New("contexts need a home directory: set HOME or XDG_CONFIG_HOME")

// Get reads a context. The error wraps ErrNone if it does not exist.
func (s Store) Get(name string) (Context, error) {
	var c Context
	if err := CheckName(name); err != nil {
		return c, err
	}
	if s.dir == "" {
		return c, fmt.Errorf("context %q %w", name, ErrNone)
	}
	info, err := os.Stat(s.file(name))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return c, fmt.Errorf("context %q %w in %s; osqueue context ls shows those that do", name, ErrNone, filepath.Dir(s.file(name)))
	case err != nil:
		return c, fmt.Errorf("context %q: %w", name, err)
	case runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0:
		return c, fmt.Errorf("context %q: other users may open %s: replace its token, then chmod 600 it", name, s.file(name))
	case info.Size() > fileMax:
		return c, fmt.Errorf("context %q: %s is larger than %d bytes", name, s.file(name), fileMax)
	}
	data, err := os.ReadFile(s.file(name))
	if err != nil {
		return c, fmt.Errorf("context %q: %w", name, err)
	}
	if err := json.Unmarshal(data, &c); err != nil {
		return Context{}, fmt.Errorf("context %q: %s is not a context: %w", name, s.file(name), err)
	}
	return c, nil
}

// Put writes a context, and replaces the one of that name.
func (s Store) Put(name string, c Context) error {
	if err := CheckName(name); err != nil {
		return err
	}
	data, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return err
	}
	return s.write(s.file(name), append(data, '\n'))
}

// Remove removes a context, and the choice of it as the current one.
func (s Store) Remove(name string) error {
	if err := CheckName(name); err != nil {
		return err
	}
	err := os.Remove(s.file(name))
	if s.dir == "" || errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("context %q %w", name, ErrNone)
	}
	if err != nil {
		return err
	}
	if chosen, err := s.Chosen(); err != nil || chosen != name {
		return err
	}
	return os.Remove(s.currentFile())
}

// List returns the names of the contexts, sorted.
func (s Store) List() ([]string, error) {
	if s.dir == "" {
		return nil, nil
	}
	entries, err := os.ReadDir(filepath.Join(s.dir, "contexts"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), ".json"); ok && CheckName(name) == nil {
			names = append(names, name)
		}
	}
	return names, nil
}

// Use makes a context, which must exist, the current one.
func (s Store) Use(name string) error {
	if _, err := s.Get(name); err != nil {
		return err
	}
	return s.write(s.currentFile(), []byte(name+"\n"))
}

// Chosen returns the name that Use has stored, or "".
func (s Store) Chosen() (string, error) {
	if s.dir == "" {
		return "", nil
	}
	data, err := os.ReadFile(s.currentFile())
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return strings.TrimSpace(string(data)), err
}

// DevName is the name of the context that "osqueue dev" makes.
const DevName = "dev"

// Current returns the name of the current context: the chosen one, or dev if it exists, or "".
func (s Store) Current() (string, error) {
	name, err := s.Chosen()
	if err != nil || name != "" || s.dir == "" {
		return name, err
	}
	if _, err := os.Stat(s.file(DevName)); err != nil {
		return "", nil //nolint:nilerr // no dev cluster runs
	}
	return DevName, nil
}

// write replaces a file, which then has the mode 0600, in directories of the mode 0700.
func (s Store) write(file string, data []byte) (err error) {
	if s.dir == "" {
		return errNoHome
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(file), ".new-*") // CreateTemp makes files with the mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), file)
}
