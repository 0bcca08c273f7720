//go:build linux

package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// kernelPackage returns the package that depends on the newest kernel for virtual machines.
func kernelPackage(arch string) string { return "linux-image-cloud-" + arch }

// packages are the packages that the tests call: the sandbox, a shell, its usual programs, and
// Python with ctypes.
var packages = []string{
	"bubblewrap", "coreutils", "dash", "grep", "hostname", "libpython3-stdlib", "procps", "python3-minimal", "util-linux",
}

// debian is a kernel and programs for it.
type debian struct {
	kernel string // the file to boot
	root   string // an archive of the file system
}

// ensureDebian fetches the missing parts into dir. It builds everything under another name and
// renames it as the last step.
func ensureDebian(ctx context.Context, dir, arch string) (debian, error) {
	sum := sha256.Sum256([]byte(strings.Join(append(slices.Clip(packages), kernelPackage(arch)), " ")))
	home := filepath.Join(dir, "debian-"+hex.EncodeToString(sum[:4]))
	d := debian{kernel: filepath.Join(home, "vmlinuz"), root: filepath.Join(home, "root.cpio")}
	if _, err := os.Stat(home); err == nil {
		return d, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return d, err
	}
	fresh, err := os.MkdirTemp(dir, "fetching-")
	if err != nil {
		return d, err
	}
	defer os.RemoveAll(fresh)
	if err := fetch(ctx, fresh, arch); err != nil {
		return d, fmt.Errorf("%w; it needs the packages of Debian 12 or newer, and their lists (for another processor dpkg --add-architecture; apt-get update)", err)
	}
	made := debian{kernel: filepath.Join(fresh, "vmlinuz"), root: filepath.Join(fresh, "root.cpio")}
	if err := made.assemble(fresh); err != nil {
		return d, err
	}
	for _, part := range []string{"root", "debs", "kernel", "status"} {
		os.RemoveAll(filepath.Join(fresh, part))
	}
	return d, os.Rename(fresh, home)
}

// assemble makes the files of d from the unpacked packages.
func (d debian) assemble(fresh string) error {
	kernels, err := filepath.Glob(filepath.Join(fresh, "kernel", "boot", "vmlinuz-*"))
	if err != nil || len(kernels) != 1 {
		return errors.Join(err, fmt.Errorf("the package of the kernel holds %d kernels: want 1", len(kernels)))
	}
	if err := os.Rename(kernels[0], d.kernel); err != nil {
		return err
	}
	return writeArchive(d.root, func(a *archive) error { return a.tree(filepath.Join(fresh, "root"), unneeded) })
}

// unneeded are parts of packages that no program reads.
var unneeded = []string{"usr/share/doc", "usr/share/info", "usr/share/locale", "usr/share/man", "usr/share/bash-completion"}

// fetch unpacks the kernel and all packages below dir.
func fetch(ctx context.Context, dir, arch string) error {
	debs := filepath.Join(dir, "debs")
	if err := os.MkdirAll(filepath.Join(debs, "partial"), 0o755); err != nil {
		return err
	}
	// apt takes this for an empty system, so that it fetches all dependencies.
	status := filepath.Join(dir, "status")
	if err := os.WriteFile(status, nil, 0o600); err != nil {
		return err
	}
	err := command(ctx, "", "apt-get", slices.Concat([]string{
		"install", "--yes", "--quiet=2", "--download-only", "--no-install-recommends",
		"-o", "APT::Architecture=" + arch, "-o", "APT::Architectures=" + arch, "-o", "Dir::State::status=" + status, "-o", "Dir::Cache::archives=" + debs, "-o", "Debug::NoLocking=1",
	}, packages)...)
	if err != nil {
		return err
	}
	if err := unpack(ctx, debs, filepath.Join(dir, "root")); err != nil {
		return err
	}
	return fetchKernel(ctx, dir, arch)
}

// fetchKernel fetches only the kernel's package: its dependencies install it.
func fetchKernel(ctx context.Context, dir, arch string) error {
	kernel := kernelPackage(arch) + ":" + arch
	out, err := exec.CommandContext(ctx, "apt-cache", "depends", "--important", kernel).Output()
	if err != nil {
		return fmt.Errorf("apt-cache depends %s: %w", kernel, err)
	}
	_, name, found := strings.Cut(string(out), "Depends: ")
	if !found {
		return fmt.Errorf("apt knows no package %s", kernel)
	}
	into := filepath.Join(dir, "kernel-debs")
	if err := os.Mkdir(into, 0o755); err != nil {
		return err
	}
	defer os.RemoveAll(into)
	if err := command(ctx, into, "apt-get", "download", "--quiet=2", strings.TrimSuffix(strings.Fields(name)[0], ":"+arch)+":"+arch); err != nil {
		return err
	}
	return unpack(ctx, into, filepath.Join(dir, "kernel"))
}

// unpack unpacks all packages in a directory; it runs none of their scripts.
func unpack(ctx context.Context, debs, into string) error {
	files, err := filepath.Glob(filepath.Join(debs, "*.deb"))
	if err != nil || len(files) == 0 {
		return errors.Join(err, fmt.Errorf("no packages in %s", debs))
	}
	for _, file := range files {
		if err := command(ctx, "", "dpkg-deb", "--extract", file, into); err != nil {
			return err
		}
	}
	return nil
}

// command runs a program; its output is shown only when it fails.
func command(ctx context.Context, dir, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", name, err, out)
	}
	return nil
}
