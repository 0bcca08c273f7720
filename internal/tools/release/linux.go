package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm"
)

// packages writes a package for Debian and one for RPM for each target of Linux.
func (r *release) packages() error {
	for _, t := range r.targets {
		if t.os != "linux" {
			continue
		}
		for format, depends := range map[string]string{"deb": "passwd", "rpm": "shadow-utils"} { // for useradd
			if err := r.linuxPackage(t, format, depends); err != nil {
				return fmt.Errorf("%s for %s: %w", format, t.arch, err)
			}
		}
	}
	return nil
}

func (r *release) linuxPackage(t target, format, depends string) error {
	contents, err := r.contents(t, format)
	if err != nil {
		return err
	}
	script := filepath.Join(r.tree, "internal/tools/release/postinstall.sh")
	info := nfpm.WithDefaults(&nfpm.Info{
		Name: "osqueue", Arch: t.arch, Version: r.number, Release: "1", Section: "net", Priority: "optional",
		Maintainer: "osqueue", License: "Apache-2.0", DisableGlobbing: true, MTime: r.at,
		Description: "A job queue on three small machines and a bucket\nServer, worker and command line in one binary.",
		Overridables: nfpm.Overridables{
			Contents: contents, Depends: []string{depends}, Scripts: nfpm.Scripts{PostInstall: script},
			RPM: nfpm.RPM{BuildHost: "osqueue"}, // the default is the name of this machine
		},
	})
	packager, err := nfpm.Get(format)
	if err != nil {
		return err
	}
	if err := nfpm.PrepareForPackager(info, format); err != nil {
		return err
	}
	var out bytes.Buffer
	if err := packager.Package(info, &out); err != nil {
		return err
	}
	return r.write(packager.ConventionalFileName(info), out.Bytes())
}

// contents returns the files of a package.
func (r *release) contents(t target, format string) (files.Contents, error) {
	var all files.Contents
	add := func(from, to string, mode os.FileMode, kind string) {
		all = append(all, &files.Content{Source: from, Destination: to, Type: kind, FileInfo: &files.ContentFileInfo{Mode: mode, MTime: r.at}})
	}
	example := func(name string) string { return filepath.Join(r.tree, "docs/examples", name) }
	add(r.binary(t), "/usr/bin/osqueue", 0o755, "")
	for _, unit := range []string{"osqueue.service", "osqueue-worker.service", "osqueue-backup.service", "osqueue-backup.timer"} {
		add(example(unit), "/usr/lib/systemd/system/"+unit, 0o644, "")
	}
	add(example("serve.yaml"), "/etc/osqueue/osqueue.yaml", 0o644, files.TypeConfigNoReplace)
	add(example("osqueue.env"), "/etc/osqueue/osqueue.env", 0o600, files.TypeConfigNoReplace)
	add(filepath.Join(r.tree, "LICENSE"), "/usr/share/doc/osqueue/copyright", 0o644, "")
	add(filepath.Join(r.tree, "CHANGELOG.md"), "/usr/share/doc/osqueue/CHANGELOG.md", 0o644, "")
	for shell, to := range shells[format] {
		add(filepath.Join(r.work, "completion."+shell), to, 0o644, "")
	}
	pages, err := filepath.Glob(filepath.Join(r.work, "man1", "*.1"))
	if err != nil {
		return nil, err
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			return nil, err
		}
		if err := os.WriteFile(page+".gz", gzipped(text), 0o644); err != nil {
			return nil, err
		}
		add(page+".gz", "/usr/share/man/man1/"+filepath.Base(page)+".gz", 0o644, "")
	}
	return all, nil
}
