package apply

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"osqueue/internal/host"
)

// vault is the directory of --secrets, with a file for each secret: NAME.token of a token, and NAME.hook of a hook. A file
// that is empty was made before a call whose answer did not come.
type vault struct{ dir string }

func (v *vault) path(part, name string) string {
	return filepath.Join(v.dir, name+"."+strings.TrimSuffix(part, "s"))
}

// cut reports whether a run was cut between the call that has made a secret, or would have, and its file.
func (v *vault) cut(part, name string) bool {
	info, err := os.Stat(v.path(part, name))
	return v.dir != "" && err == nil && info.Size() == 0
}

// check returns an error if a secret has no place.
func (v *vault) check(s *step) error {
	_, err := os.Stat(s.Secret)
	switch {
	case s.Secret == "":
		return nil
	case v.dir == "":
		return fmt.Errorf("%s is new, and gets a secret: give --secrets DIR, the directory for it", s.object())
	case s.Name != filepath.Base(s.Name) || strings.HasPrefix(s.Name, "."):
		return fmt.Errorf("%s: its secret needs a file, which cannot have that name: make it by command", s.object())
	case err == nil && !v.cut(s.Part, s.Name):
		return fmt.Errorf("%s is new, and %s has another secret: move that file away", s.object(), s.Secret)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	}
	return nil
}

// begin makes the empty file of a secret, which nobody else can read, unless it is there.
func (v *vault) begin(path string) error {
	if err := os.MkdirAll(v.dir, 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	switch {
	case errors.Is(err, fs.ErrExist):
		return nil
	case err != nil:
		return err
	}
	return f.Close()
}

// end fills the file. If another run has filled it, the secret of this one may have been rotated since.
func (v *vault) end(path, secret string) error {
	if info, err := os.Stat(path); err == nil && info.Size() > 0 {
		return fmt.Errorf("another run has stored a secret in %s at the same time, which stays", path)
	}
	return host.ReplaceFile(path, []byte(secret+"\n"), 0o600)
}
