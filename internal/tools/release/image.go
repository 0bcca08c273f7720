package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// imageUser owns the folders of the image, and runs the program.
const imageUser = 65532

// images writes an image for each target of Linux, in the form that docker load reads, and one of all platforms in the
// form of OCI.
func (r *release) images() error {
	config, folders, err := r.dockerfile()
	if err != nil {
		return fmt.Errorf("read the Dockerfile: %w", err)
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, t := range r.targets {
		if t.os != "linux" {
			continue
		}
		img, err := r.image(t, config, folders)
		if err != nil {
			return err
		}
		tag, err := name.NewTag("osqueue:" + r.version)
		if err != nil {
			return err
		}
		var out bytes.Buffer
		if err := tarball.Write(tag, img, &out); err != nil {
			return err
		}
		if err := r.write(fmt.Sprintf("osqueue_%s_image_%s.tar", r.number, t.arch), out.Bytes()); err != nil {
			return err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add:        mutate.ConfigMediaType(mutate.MediaType(img, types.OCIManifestSchema1), types.OCIConfigJSON),
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: t.os, Architecture: t.arch}},
		})
	}
	return r.imageOfAll(index)
}

// imageOfAll writes the layout of OCI as an archive.
func (r *release) imageOfAll(index v1.ImageIndex) error {
	dir := filepath.Join(r.work, "oci")
	if _, err := layout.Write(dir, index); err != nil {
		return err
	}
	var files []entry
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		files = append(files, entry{name: strings.TrimPrefix(filepath.ToSlash(path[len(dir):]), "/"), data: data})
		return err
	})
	if err != nil {
		return err
	}
	return r.write(fmt.Sprintf("osqueue_%s_image_oci.tar", r.number), tarOf(r.at, files))
}

// image returns the image of a target: a layer with the folders of the volumes and the program.
func (r *release) image(t target, config v1.Config, folders []string) (v1.Image, error) {
	program, err := os.ReadFile(r.binary(t))
	if err != nil {
		return nil, err
	}
	var files []entry
	for _, f := range folders {
		files = append(files, entry{name: f + "/", owner: imageUser})
	}
	data := tarOf(r.at, append(files, entry{name: "osqueue", mode: 0o755, data: program}))
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil },
		tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	history := v1.History{Created: v1.Time{Time: r.at}, CreatedBy: "osqueue " + r.version}
	img, err := mutate.Append(empty.Image, mutate.Addendum{Layer: layer, History: history})
	if err != nil {
		return nil, err
	}
	file, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	file = file.DeepCopy()
	file.OS, file.Architecture, file.Created, file.Config = t.os, t.arch, v1.Time{Time: r.at}, config
	return mutate.ConfigFile(img, file)
}

// dockerfile returns what the Dockerfile says of the image, and its folders, those above others first. It knows the
// instructions that the file has.
func (r *release) dockerfile() (config v1.Config, folders []string, err error) {
	text, err := r.read("Dockerfile")
	if err != nil {
		return config, nil, err
	}
	config.Labels = map[string]string{"org.opencontainers.image.version": r.version, "org.opencontainers.image.revision": r.commit}
	config.ExposedPorts = map[string]struct{}{}
	known := map[string]bool{}
	for _, line := range strings.Split(strings.ReplaceAll(string(text), "\\\n", " "), "\n") {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch word {
		case "WORKDIR":
			path := ""
			for _, part := range strings.Split(strings.Trim(rest, "/"), "/") {
				if path = filepath.ToSlash(filepath.Join(path, part)); !known[path] {
					known[path], folders = true, append(folders, path)
				}
			}
		case "USER":
			config.User = rest
		case "EXPOSE":
			for _, port := range strings.Fields(rest) {
				config.ExposedPorts[port+"/tcp"] = struct{}{}
			}
		case "ENTRYPOINT":
			err = json.Unmarshal([]byte(rest), &config.Entrypoint)
		case "CMD":
			err = json.Unmarshal([]byte(rest), &config.Cmd)
		case "LABEL":
			for _, label := range strings.Split(rest, "\" ") {
				key, value, _ := strings.Cut(strings.TrimSpace(label), "=")
				config.Labels[key] = strings.Trim(value, `"`)
			}
		case "", "#", "FROM", "COPY":
		default:
			err = fmt.Errorf("the instruction %s is unknown here", word)
		}
		if err != nil {
			return config, nil, err
		}
	}
	if want := fmt.Sprintf("%d:%[1]d", imageUser); config.User != want {
		return config, nil, fmt.Errorf("USER %q: must be %s", config.User, want)
	}
	return config, folders, nil
}
