package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// entry is a file of an archive, or a folder if its name ends with a slash.
type entry struct {
	name  string
	mode  int64 // 0: 0644, of a folder 0755
	owner int   // user and group
	data  []byte
}

// tarOf returns an archive. Its bytes follow from the arguments: writing to memory cannot fail, and a header that tar
// cannot write is a defect of this program.
func tarOf(at time.Time, entries []entry) []byte {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Mode: e.mode, Uid: e.owner, Gid: e.owner, Size: int64(len(e.data)), ModTime: at, Format: tar.FormatPAX}
		switch {
		case strings.HasSuffix(e.name, "/"):
			h.Typeflag, h.Mode = tar.TypeDir, 0o755
		case h.Mode == 0:
			h.Mode = 0o644
		}
		must(w.WriteHeader(h))
		_, err := w.Write(e.data)
		must(err)
	}
	must(w.Close())
	return out.Bytes()
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func (r *release) tarGz(entries []entry) []byte { return gzipped(tarOf(r.at, entries)) }

func gzipped(data []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, err := w.Write(data)
	must(err)
	must(w.Close())
	return out.Bytes()
}

// folder returns the files of a folder of the commit below another name, in the order of their names. Each 0.0.0 in
// a file that declares a version becomes that of the release.
func (r *release) folder(dir, as string) (entries []entry, err error) {
	err = filepath.WalkDir(filepath.Join(r.tree, dir), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasPrefix(d.Name(), ".") {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if d.Name() == "Chart.yaml" || d.Name() == "package.json" {
			data = bytes.ReplaceAll(data, []byte("0.0.0"), []byte(r.number))
		}
		name, err := filepath.Rel(filepath.Join(r.tree, dir), path)
		entries = append(entries, entry{name: as + "/" + filepath.ToSlash(name), data: data})
		return err
	})
	return entries, err
}

// chart writes the Helm chart.
func (r *release) chart() error {
	files, err := r.folder("deploy/chart", "osqueue")
	if err != nil {
		return err
	}
	return r.write("osqueue-chart-"+r.number+".tgz", r.tarGz(files))
}

// clients writes the package of the JavaScript client for npm, and the wheel of the Python client.
func (r *release) clients() error {
	files, err := r.folder("clients/js", "package")
	if err != nil {
		return err
	}
	if err := r.write("osqueue-js-"+r.number+".tgz", r.tarGz(files)); err != nil {
		return err
	}
	return r.wheel()
}

// wheel writes the package of the Python client, which is one file.
func (r *release) wheel() error {
	module, err := r.read("clients/python/osqueue.py")
	if err != nil {
		return err
	}
	readme, err := r.read("clients/python/README.md")
	if err != nil {
		return err
	}
	info := "osqueue-" + r.number + ".dist-info/"
	head := "Metadata-Version: 2.1\nName: osqueue\nVersion: " + r.number + "\nSummary: Client and worker for osqueue\n" +
		"License: Apache-2.0\nRequires-Python: >=3.8\nDescription-Content-Type: text/markdown\n\n"
	files := []entry{
		{name: "osqueue.py", data: module},
		{name: info + "METADATA", data: append([]byte(head), readme...)},
		{name: info + "WHEEL", data: []byte("Wheel-Version: 1.0\nGenerator: osqueue\nRoot-Is-Purelib: true\nTag: py3-none-any\n")},
	}
	var record string
	for _, f := range files {
		sum := sha256.Sum256(f.data)
		record += fmt.Sprintf("%s,sha256=%s,%d\n", f.name, base64.RawURLEncoding.EncodeToString(sum[:]), len(f.data))
	}
	files = append(files, entry{name: info + "RECORD", data: []byte(record + info + "RECORD,,\n")})
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, f := range files {
		part, err := w.CreateHeader(&zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: r.at})
		must(err)
		_, err = part.Write(f.data)
		must(err)
	}
	must(w.Close())
	return r.write("osqueue-"+r.number+"-py3-none-any.whl", out.Bytes())
}
