package admin

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"

	"osqueue/internal/auth/certs"
)

// completeRelease reads --kubernetes, and names the pods of the release if no flag --node does. The names are those that
// deploy/chart gives to pods and services.
func (in *initialization) completeRelease() {
	if namespace, name, ok := strings.Cut(in.release, "/"); ok {
		in.namespace, in.release = namespace, name
	}
	if in.release == "" || len(in.nodes) > 0 {
		return
	}
	services := in.release
	if in.namespace != "" {
		full := in.release + "." + in.namespace
		services += "," + full + "," + full + ".svc," + full + ".svc.cluster.local"
	}
	for i := range 3 {
		in.nodes = append(in.nodes, fmt.Sprintf("%[1]s-%[2]d=%[1]s-%[2]d.%[1]s-nodes,%[3]s,localhost,127.0.0.1", in.release, i, services))
	}
}

// secret is a Secret of Kubernetes.
type secret struct {
	APIVersion string            `yaml:"apiVersion"`
	Kind       string            `yaml:"kind"`
	Metadata   map[string]string `yaml:"metadata"`
	Data       map[string]string `yaml:"stringData"`
}

// secrets prints the Secrets of the nodes and of each token.
func (in *initialization) secrets() error {
	files := []string{certs.CAFile, bootstrapName}
	for _, n := range in.known {
		files = append(files, n.name+".crt", n.name+".key")
	}
	out := yaml.NewEncoder(in.g.Out)
	if err := in.secret(out, "certs", files...); err != nil {
		return err
	}
	for _, name := range in.others {
		if err := in.secret(out, name, certs.CAFile, name+tokenSuffix); err != nil {
			return err
		}
	}
	return out.Close()
}

// secret prints a Secret with files of the directory.
func (in *initialization) secret(out *yaml.Encoder, name string, files ...string) error {
	s := secret{APIVersion: "v1", Kind: "Secret", Metadata: map[string]string{"name": in.release + "-" + name}, Data: make(map[string]string)}
	if in.namespace != "" {
		s.Metadata["namespace"] = in.namespace
	}
	for _, f := range files {
		data, err := os.ReadFile(filepath.Join(in.dir, f))
		if err != nil {
			return err
		}
		s.Data[f] = string(data)
	}
	return out.Encode(s)
}
