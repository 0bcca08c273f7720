package certs

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"osqueue/internal/host"
)

// TestReload replaces the files of an identity, first with some that cannot be used.
func TestReload(t *testing.T) {
	dir := t.TempDir()
	a, err := CreateAuthority(dir, CALifetime, time.Now())
	check(t, err)
	issue := func(lifetime time.Duration) {
		t.Helper()
		if _, err := a.Issue(Request{Kind: Node, Name: "n1", Hosts: []string{"h"}, Lifetime: lifetime}, time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	issue(time.Hour)
	var errs []error
	used := 0 // how often changed files came into use
	f := Files{CA: filepath.Join(dir, CAFile), Cert: filepath.Join(dir, "n1.crt"), Key: filepath.Join(dir, "n1.key")}
	id, err := Load(f, func(err error) {
		if err == nil {
			used++
			return
		}
		errs = append(errs, err)
	})
	check(t, err)
	at := time.Now()
	id.now = func() time.Time { return at }
	first := id.Expires()

	check(t, host.ReplaceFile(f.Key, []byte("half of a key"), 0o600))
	if !id.Expires().Equal(first) || len(errs) != 0 {
		t.Fatal("the files were looked at again at once")
	}
	for range 3 {
		at = at.Add(lookAgain)
		if !id.Expires().Equal(first) {
			t.Fatal("the previous certificate is gone")
		}
	}
	if len(errs) != 1 {
		t.Errorf("%d reports of one mistake: %v", len(errs), errs)
	}
	issue(2 * time.Hour)
	at = at.Add(lookAgain)
	second := id.Expires()
	if !second.After(first) || len(errs) != 1 || used != 1 {
		t.Errorf("after the replacement it ends at %v, before it did at %v; errors %v", second, first, errs)
	}
	for i, other := range []Request{
		{Kind: Node, Name: "n2", Hosts: []string{"h"}, Lifetime: 3 * time.Hour},
		{Kind: Client, Name: "c", Lifetime: 3 * time.Hour},
	} {
		c, err := a.Issue(other, time.Now())
		check(t, err)
		for _, suffix := range []string{".key", ".crt"} {
			data, err := os.ReadFile(filepath.Join(dir, other.Name+suffix))
			if err == nil {
				err = host.ReplaceFile(filepath.Join(dir, "n1"+suffix), data, 0o600)
			}
			check(t, err)
		}
		at = at.Add(lookAgain)
		if s := id.Subject(); s.Name != "n1" || s.Kind != Node || !id.Expires().Equal(second) || len(errs) != 2+i {
			t.Errorf("with the certificate of %s it is %s and ends at %v; errors %v", c.Subject.CommonName, s, id.Expires(), errs)
		}
	}
	errs = errs[:1]
	check(t, os.Remove(f.CA))
	at = at.Add(lookAgain)
	if !id.Expires().Equal(second) || len(errs) != 2 {
		t.Errorf("after the removal of the CA: ends at %v, errors %v", id.Expires(), errs)
	}
}

func FuzzParseCertificates(f *testing.F) {
	a, err := CreateAuthority(f.TempDir(), CALifetime, time.Now())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(Encode(a.bundle...))
	f.Add([]byte("-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		list, err := Parse(data)
		if (err == nil) != (len(list) > 0) {
			t.Fatalf("%d certificates and %v", len(list), err)
		}
		for _, c := range list {
			if s, err := SubjectOf(c); err == nil && CheckName(s.Name) != nil {
				t.Fatalf("a certificate names %q", s.Name)
			}
		}
		Describe("f", list)
	})
}

// A list of which the end is missing, or a part is damaged, is refused: a process that is copied a file trusts
// both certificates of a CA that is replaced, or keeps those that it has.
func TestCutLists(t *testing.T) {
	a, err := CreateAuthority(t.TempDir(), CALifetime, time.Now())
	if err == nil {
		err = a.Rotate(CALifetime, time.Now())
	}
	check(t, err)
	data := Encode(a.bundle...)
	first := len(Encode(a.bundle[0]))
	for n := range data {
		list, err := Parse(data[:n])
		switch {
		case n >= first && n < first+len("-----"), n >= len(data)-1, n == first-1:
			// It ends between two certificates, before the next one is recognizable.
		case err == nil:
			t.Fatalf("%d of %d bytes are %d certificates", n, len(data), len(list))
		}
	}
	damaged := bytes.Clone(data)
	damaged[first/2] = '!'
	if list, err := Parse(damaged); err == nil {
		t.Errorf("a damaged list is %d certificates", len(list))
	}
	comment := append([]byte("the CA of 2026\n"), data...)
	if list, err := Parse(append(comment, "\n# end\n"...)); err != nil || len(list) != 2 {
		t.Errorf("a list with comments is %d certificates: %v", len(list), err)
	}
}

// check ends the test if err is not nil.
func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
