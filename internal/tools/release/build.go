package main

import (
	"bytes"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/uuid"
)

// binary returns the path of the program for a target.
func (r *release) binary(t target) string { return filepath.Join(r.work, t.os+"-"+t.arch, "osqueue") }

// binaries compiles the program for each target, and writes an archive and an SBOM for each.
func (r *release) binaries() error {
	module, err := output(r.tree, []string{"GOWORK=off"}, "go", "list", "-m")
	if err != nil {
		return err
	}
	stamp := fmt.Sprintf("-s -w -X %[1]s/internal/build.version=%[2]s -X %[1]s/internal/build.commit=%[3]s -X %[1]s/internal/build.date=%[4]s",
		module, r.version, r.commit, r.at.Format(time.RFC3339))
	license, err := r.read("LICENSE")
	if err != nil {
		return err
	}
	for _, t := range r.targets {
		env := []string{"GOWORK=off", "CGO_ENABLED=0", "GOOS=" + t.os, "GOARCH=" + t.arch}
		_, err := output(r.tree, env, "go", "build", "-buildvcs=false", "-trimpath", "-tags=disable_grpc_modules",
			"-ldflags", stamp, "-o", r.binary(t), "./cmd/osqueue")
		if err != nil {
			return err
		}
		program, err := os.ReadFile(r.binary(t))
		if err != nil {
			return err
		}
		archive := []entry{{name: "osqueue", mode: 0o755, data: program}, {name: "LICENSE", data: license}}
		name := fmt.Sprintf("osqueue_%s_%s_%s", r.number, t.os, t.arch)
		if err := r.write(name+".tar.gz", r.tarGz(archive)); err != nil {
			return err
		}
		bom, err := r.bom(t)
		if err != nil {
			return fmt.Errorf("SBOM of %s: %w", name, err)
		}
		if err := r.write(name+".cdx.json", bom); err != nil {
			return err
		}
	}
	return nil
}

// bom returns the modules that a binary says it was made of, in the form of CycloneDX.
func (r *release) bom(t target) ([]byte, error) {
	info, err := buildinfo.ReadFile(r.binary(t))
	if err != nil {
		return nil, err
	}
	platform := "?goos=" + t.os + "&goarch=" + t.arch
	bom := cdx.NewBOM()
	bom.SerialNumber = uuid.NewSHA1(uuid.NameSpaceURL, []byte("osqueue "+r.commit+" "+r.version+platform)).URN()
	bom.Metadata = &cdx.Metadata{
		Timestamp: r.at.Format(time.RFC3339),
		Component: &cdx.Component{
			BOMRef: "osqueue", Type: cdx.ComponentTypeApplication, Name: "osqueue", Version: r.version,
			PackageURL: "pkg:golang/osqueue@" + r.version + platform,
		},
	}
	parts := []cdx.Component{{
		BOMRef: "go", Type: cdx.ComponentTypeLibrary, Name: "std", Version: info.GoVersion,
		PackageURL: "pkg:golang/std@" + strings.TrimPrefix(info.GoVersion, "go"),
	}}
	needs := []string{"go"}
	for _, m := range info.Deps {
		if m.Replace != nil {
			continue // a module of this repository, whose version is that of the program
		}
		url := "pkg:golang/" + m.Path + "@" + m.Version
		part := cdx.Component{BOMRef: url, Type: cdx.ComponentTypeLibrary, Name: m.Path, Version: m.Version, PackageURL: url}
		if sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(m.Sum, "h1:")); err == nil && len(sum) > 0 {
			part.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(sum)}} // of the files, as in go.sum
		}
		parts, needs = append(parts, part), append(needs, url)
	}
	bom.Components = &parts
	bom.Dependencies = &[]cdx.Dependency{{Ref: "osqueue", Dependencies: &needs}}
	var out bytes.Buffer
	err = cdx.NewBOMEncoder(&out, cdx.BOMFileFormatJSON).SetPretty(true).Encode(bom)
	return out.Bytes(), err
}

// shells are the shells with completions, and the file of each in a package of a format.
var shells = map[string]map[string]string{
	"deb": {
		"bash": "/usr/share/bash-completion/completions/osqueue", "fish": "/usr/share/fish/vendor_completions.d/osqueue.fish",
		"zsh": "/usr/share/zsh/vendor-completions/_osqueue",
	},
	"rpm": {
		"bash": "/usr/share/bash-completion/completions/osqueue", "fish": "/usr/share/fish/vendor_completions.d/osqueue.fish",
		"zsh": "/usr/share/zsh/site-functions/_osqueue",
	},
}

// manual has the program write its manual pages and completions.
func (r *release) manual() error {
	program := r.binary(target{runtime.GOOS, runtime.GOARCH})
	if _, err := os.Stat(program); err != nil {
		return fmt.Errorf("no program of this release runs on this machine: %w", err)
	}
	env := []string{"SOURCE_DATE_EPOCH=" + strconv.FormatInt(r.at.Unix(), 10), "HOME=" + r.work}
	if _, err := output(r.work, env, program, "man", filepath.Join(r.work, "man1")); err != nil {
		return err
	}
	for shell := range shells["deb"] {
		text, err := output(r.work, env, program, "completion", shell)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(r.work, "completion."+shell), []byte(text+"\n"), 0o644); err != nil {
			return err
		}
	}
	return nil
}
