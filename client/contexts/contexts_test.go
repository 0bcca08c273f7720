package contexts

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// env returns a getenv with a store of its own.
func env(t *testing.T, pairs ...string) func(string) string {
	t.Helper()
	set := map[string]string{"XDG_CONFIG_HOME": t.TempDir()}
	for i := 0; i < len(pairs); i += 2 {
		set[pairs[i]] = pairs[i+1]
	}
	return func(name string) string { return set[name] }
}

func TestStore(t *testing.T) {
	s := Of(env(t))
	prod := Context{Servers: []string{"10.0.0.1:8080"}, CA: "pem", Token: "osq_a_b_c"}
	for _, name := range []string{"prod", "test"} {
		check(t, s.Put(name, prod))
	}
	got, err := s.Get("prod")
	if err != nil || !slices.Equal(got.Servers, prod.Servers) || got.Token != prod.Token || got.CA != prod.CA {
		t.Errorf("%+v, %v", got, err)
	}
	if names, err := s.List(); err != nil || !slices.Equal(names, []string{"prod", "test"}) {
		t.Errorf("%v, %v", names, err)
	}
	if err := s.Use("other"); !errors.Is(err, ErrNone) {
		t.Errorf("use of none: %v", err)
	}
	check(t, s.Use("prod"))
	check(t, s.Remove("prod"))
	if name, err := s.Current(); err != nil || name != "" {
		t.Errorf("a removed context is current: %q, %v", name, err)
	}
	if err := s.Remove("prod"); !errors.Is(err, ErrNone) {
		t.Errorf("removed twice: %v", err)
	}
}

func TestFilesAreForTheirOwnerOnly(t *testing.T) {
	s := Of(env(t))
	check(t, s.Put("prod", Context{Servers: []string{"a"}, Token: "secret"}))
	for path, want := range map[string]os.FileMode{s.file("prod"): 0o600, s.dir: 0o700, filepath.Dir(s.file("prod")): 0o700} {
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
	check(t, os.Chmod(s.file("prod"), 0o644))
	if _, err := s.Get("prod"); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("a file that all may read: %v", err)
	}
}

func TestNames(t *testing.T) {
	for name, ok := range map[string]bool{
		"a": true, "prod.eu-1_x": true, "": false, "../x": false, ".x": false, "a/b": false, "a b": false, strings.Repeat("a", 65): false,
	} {
		if err := CheckName(name); (err == nil) != ok {
			t.Errorf("%q: %v", name, err)
		}
	}
	if err := Of(env(t)).Put("../x", Context{}); err == nil {
		t.Error("a context outside of its directory")
	}
	if err := (Store{}).Put("x", Context{}); !errors.Is(err, errNoHome) {
		t.Errorf("without a home: %v", err)
	}
}

// A reader sees a whole context while others replace it.
func TestReplacedAtOnce(t *testing.T) {
	s := Of(env(t))
	big := Context{Servers: []string{"a"}, CA: strings.Repeat("x", 100_000), Token: "t"}
	check(t, s.Put("c", big))
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 20 {
				if err := s.Put("c", big); err != nil {
					t.Error(err)
				}
				if c, err := s.Get("c"); err != nil || len(c.CA) != len(big.CA) {
					t.Errorf("%d bytes, %v", len(c.CA), err)
				}
			}
		})
	}
	wg.Wait()
}

func TestResolve(t *testing.T) {
	ca := filepath.Join(t.TempDir(), "ca.crt")
	check(t, os.WriteFile(ca, []byte("of a file"), 0o600))
	for name, c := range map[string]struct {
		env            []string
		given          Given
		want           Resolved
		current, noDev bool
	}{
		"nothing":                     {noDev: true},
		"the dev cluster":             {want: Resolved{Name: DevName, Context: Context{Servers: []string{"127.0.0.1:8080", "127.0.0.1:8081"}, CA: "dev ca", Token: "dev"}}},
		"the chosen one":              {current: true, want: Resolved{Name: "prod", Context: Context{Servers: []string{"https://prod:8080"}, CA: "prod ca", Token: "prod"}}},
		"one of its servers":          {current: true, given: Given{Servers: []string{"prod:8080"}}, want: Resolved{Name: "prod", Context: Context{Servers: []string{"prod:8080"}, CA: "prod ca", Token: "prod"}}},
		"a server of another cluster": {current: true, given: Given{Servers: []string{"evil:8080"}}, want: Resolved{Context: Context{Servers: []string{"evil:8080"}}}},
		"a server of the environment": {current: true, env: []string{EnvServers, "evil:8080"}, want: Resolved{Context: Context{Servers: []string{"evil:8080"}}}},
		"by the environment":          {env: []string{EnvContext, "prod"}, want: Resolved{Name: "prod", Context: Context{Servers: []string{"https://prod:8080"}, CA: "prod ca", Token: "prod"}}},
		"the flag beats the environment": {
			env: []string{EnvContext, "prod", EnvToken, "env"}, given: Given{Context: "dev", CA: ca},
			want: Resolved{Name: DevName, Context: Context{Servers: []string{"127.0.0.1:8080", "127.0.0.1:8081"}, CA: "of a file", Token: "env"}},
		},
		"named with other servers": {
			env: []string{EnvServers, "new:1, new:2"}, given: Given{Context: "prod", Token: "flag"},
			want: Resolved{Name: "prod", Context: Context{Servers: []string{"new:1", "new:2"}, CA: "prod ca", Token: "flag"}},
		},
	} {
		getenv := env(t, c.env...)
		s := Of(getenv)
		err := s.Put("prod", Context{Servers: []string{"https://prod:8080"}, CA: "prod ca", Token: "prod"})
		if !c.noDev {
			err = errors.Join(err, s.Put(DevName, Context{Servers: []string{"127.0.0.1:8080", "127.0.0.1:8081"}, CA: "dev ca", Token: "dev"}))
		}
		if c.current {
			err = errors.Join(err, s.Use("prod"))
		}
		check(t, err)
		got, err := s.Resolve(c.given, getenv)
		if err != nil || got.Name != c.want.Name || got.CA != c.want.CA || got.Token != c.want.Token || !slices.Equal(got.Servers, c.want.Servers) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

func TestResolveNames(t *testing.T) {
	getenv := env(t, EnvContext, "none")
	if _, err := Of(getenv).Resolve(Given{}, getenv); !errors.Is(err, ErrNone) {
		t.Errorf("%v", err)
	}
	getenv = env(t, EnvCA, "/does/not/exist")
	if _, err := Of(getenv).Resolve(Given{}, getenv); err == nil {
		t.Error("a CA that does not exist is accepted")
	}
}

// check ends the test if err is not nil.
func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
