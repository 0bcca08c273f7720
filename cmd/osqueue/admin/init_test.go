package admin

import (
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"osqueue/fsm"
	"osqueue/internal/auth"
	"osqueue/internal/auth/certs"
)

// The command can be repeated: a second run keeps every file and makes what is missing.
func TestInitCanBeRepeated(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "certs")
	out := mustRun(t, "init", "--dir", dir, "--node", "n1=127.0.0.1,localhost")
	if !strings.Contains(out, "  osqueue serve --config "+filepath.Join(dir, "n1.yaml")+"\n") {
		t.Errorf("no next command:\n%s", out)
	}
	before := contents(t, dir)
	for name, mode := range map[string]os.FileMode{".": 0o700, "ca.key": 0o600, "n1.key": 0o600, adminTokenFile: 0o600, bootstrapName: 0o600} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v, want mode %v (%v)", name, info.Mode(), mode, err)
		}
	}
	mustRun(t, "init", "--dir", dir, "--node", "n1=localhost,127.0.0.1", "--node", "n2=127.0.0.2")
	after := contents(t, dir)
	for name, text := range before {
		if after[name] != text && name != bootstrapName { // which names the nodes
			t.Errorf("the second run changed %s", name)
		}
	}
	if after["n2.crt"] == "" || after["n2.key"] == "" {
		t.Error("the second run did not make the certificate of the new node")
	}
	secret, err := auth.ReadSecret(filepath.Join(dir, adminTokenFile))
	check(t, err)
	b, err := auth.ReadBootstrap(filepath.Join(dir, bootstrapName))
	want := secret.Bootstrap()
	want.Nodes = []string{"n1", "n2"}
	if err != nil || !reflect.DeepEqual(b, want) {
		t.Errorf("bootstrap.json has %v, want %v (%v)", b, want, err)
	}
	if strings.Contains(after[bootstrapName], strings.Split(secret.Text, "_")[2]) {
		t.Error("bootstrap.json has the secret")
	}
	check(t, os.Chmod(filepath.Join(dir, bootstrapName), 0o646))
	if _, err := auth.ReadBootstrap(filepath.Join(dir, bootstrapName)); err == nil {
		t.Error("a bootstrap.json that all users may write is taken")
	}
}

func mustRun(t *testing.T, args ...string) string {
	t.Helper()
	r := osq.Command(t).Run(args...)
	if r.Code != 0 {
		t.Fatalf("%v: status %d\n%s", args, r.Code, r.Err)
	}
	return r.Out
}

// contents returns the files of a directory by name.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	files, err := os.ReadDir(dir)
	check(t, err)
	out := make(map[string]string)
	for _, f := range files {
		data, err := os.ReadFile(filepath.Join(dir, f.Name()))
		check(t, err)
		out[f.Name()] = string(data)
	}
	return out
}

// A further token is in bootstrap.json as a hash, and each directory of --copy-to has what one
// program needs: no key of the CA, no admin token.
func TestInitCopies(t *testing.T) {
	dir, out := t.TempDir(), t.TempDir()
	args := []string{"init", "--dir", dir, "--copy-to", out, "--node", "n1=10.0.0.1", "--token", "w=worker"}
	if text := mustRun(t, args...); !strings.Contains(text, " --config "+filepath.Join(out, "n1", "n1.yaml")+"\n") {
		t.Errorf("the printed command does not use the copies:\n%s", text)
	}
	want := map[string][]string{
		"n1": {"bootstrap.json", "ca.crt", "n1.crt", "n1.key", "n1.yaml"},
		"w":  {"ca.crt", "w.token"},
	}
	for name, files := range want {
		have := slices.Sorted(maps.Keys(contents(t, filepath.Join(out, name))))
		if !slices.Equal(have, files) {
			t.Errorf("%s has the files %v, want %v", name, have, files)
		}
	}
	secret, err := auth.ReadSecret(filepath.Join(out, "w", "w.token"))
	check(t, err)
	b, err := auth.ReadBootstrap(filepath.Join(out, "n1", bootstrapName))
	if err != nil || !reflect.DeepEqual(b.Others, []auth.FirstToken{secret.First(fsm.RoleWorker, "w")}) {
		t.Errorf("bootstrap.json has the further tokens %v (%v)", b.Others, err)
	}

	// A node that has renewed its certificate keeps it, and a renewed one here is copied.
	mustRun(t, "cert", "renew", "n1", "--dir", dir, "--lifetime", "100d")
	mustRun(t, args...)
	if contents(t, filepath.Join(out, "n1"))["n1.key"] != contents(t, dir)["n1.key"] {
		t.Error("the renewed certificate was not copied")
	}
	renewed := contents(t, filepath.Join(out, "n1"))
	mustRun(t, "cert", "renew", "n1", "--dir", dir, "--lifetime", "50d")
	mustRun(t, args...)
	if !reflect.DeepEqual(contents(t, filepath.Join(out, "n1")), renewed) {
		t.Error("a certificate that ends later was replaced")
	}

	// A certificate in the last third of its life is renewed.
	a, err := certs.LoadAuthority(dir)
	check(t, err)
	if _, err := a.Renew("n1", certs.NodeLifetime, time.Now().Add(-61*24*time.Hour)); err != nil {
		t.Fatal(err)
	}
	before := contents(t, dir)["n1.crt"]
	if text := mustRun(t, args...); !strings.Contains(text, "renewed") || contents(t, dir)["n1.crt"] == before {
		t.Errorf("the certificate was not renewed:\n%s", text)
	}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
