package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/yaml"
)

// objects are those of a chart, or those that osqueue init prints, by kind and name.
type objects map[string]any

// decode reads documents of YAML as the API of Kubernetes does, and refuses a field that it does not know.
func (o objects) decode(t *testing.T, text string) {
	t.Helper()
	for _, doc := range strings.Split("\n"+text, "\n---") {
		var kind struct {
			Kind     string
			Metadata struct{ Name string }
		}
		check(t, yaml.Unmarshal([]byte(doc), &kind))
		var to any
		switch kind.Kind {
		case "":
			continue
		case "Deployment":
			to = &appsv1.Deployment{}
		case "NetworkPolicy":
			to = &networkingv1.NetworkPolicy{}
		case "PodDisruptionBudget":
			to = &policyv1.PodDisruptionBudget{}
		case "Secret":
			to = &corev1.Secret{}
		case "Service":
			to = &corev1.Service{}
		case "ServiceMonitor":
			to = &monitoringv1.ServiceMonitor{}
		case "StatefulSet":
			to = &appsv1.StatefulSet{}
		}
		if err := yaml.UnmarshalStrict([]byte(doc), to); err != nil {
			t.Fatalf("%s %s: %v\n%s", kind.Kind, kind.Metadata.Name, err, doc)
		}
		o[kind.Kind+" "+kind.Metadata.Name] = to
	}
}

// render returns the objects of the release osqueue in the namespace jobs.
func render(t *testing.T, values map[string]any) (objects, error) {
	t.Helper()
	c, err := loader.LoadArchive(bytes.NewReader(artefact(t, "osqueue-chart-0.1.0.tgz")))
	check(t, err)
	check(t, c.Validate())
	all, err := chartutil.ToRenderValues(c, values, chartutil.ReleaseOptions{Name: "osqueue", Namespace: "jobs"}, chartutil.DefaultCapabilities)
	check(t, err)
	files, err := engine.Render(c, all)
	out := objects{}
	for name, text := range files {
		if strings.HasSuffix(name, ".yaml") {
			out.decode(t, text)
		}
	}
	return out, err
}

func everything() map[string]any {
	return map[string]any{
		"bucket": "file:///bucket", "serviceMonitor": true, "args": []any{"--log-json"}, "serviceAccountName": "jobs",
		"envFrom": []any{map[string]any{"secretRef": map[string]any{"name": "bucket"}}},
		"storage": map[string]any{"className": "fast"},
		"workers": map[string]any{"replicas": 2, "args": []any{"--exec=version=/osqueue version"}},
	}
}

// The objects of the chart are ones that Kubernetes knows, and name each other and the Secrets of osqueue init.
func TestChart(t *testing.T) {
	if _, err := render(t, nil); err == nil || !strings.Contains(err.Error(), "give the URL of the bucket") {
		t.Error(err)
	}
	least, err := render(t, map[string]any{"bucket": "s3://jobs/prod?region=eu-central-1", "networkPolicy": false})
	check(t, err)
	if len(least) != 4 {
		t.Errorf("%v", least)
	}
	all, err := render(t, everything())
	check(t, err)
	all.decode(t, initialized(t, t.TempDir()))
	for _, name := range []string{
		"Deployment osqueue-worker", "NetworkPolicy osqueue", "PodDisruptionBudget osqueue", "Secret osqueue-certs", "Secret osqueue-metrics",
		"Secret osqueue-worker", "Service osqueue", "Service osqueue-nodes", "ServiceMonitor osqueue", "StatefulSet osqueue",
	} {
		if all[name] == nil {
			t.Errorf("there is no %s", name)
		}
	}
	set := all["StatefulSet osqueue"].(*appsv1.StatefulSet)
	if set.Spec.ServiceName != "osqueue-nodes" || *set.Spec.Replicas != 3 || set.Spec.Template.Spec.Containers[0].Image != "osqueue:"+version {
		t.Errorf("%+v", set.Spec)
	}
	for _, p := range []corev1.PodSpec{set.Spec.Template.Spec, all["Deployment osqueue-worker"].(*appsv1.Deployment).Spec.Template.Spec} {
		for _, v := range p.Volumes {
			if v.Secret != nil && all["Secret "+v.Secret.SecretName] == nil {
				t.Errorf("no Secret %s", v.Secret.SecretName)
			}
		}
	}
	endpoint := all["ServiceMonitor osqueue"].(*monitoringv1.ServiceMonitor).Spec.Endpoints[0]
	credentials := endpoint.Authorization.Credentials
	if all["Secret "+credentials.Name].(*corev1.Secret).StringData[credentials.Key] == "" {
		t.Errorf("%+v", credentials)
	}
}

// initialized returns what osqueue init prints for the release osqueue in the namespace jobs.
func initialized(t *testing.T, dir string) string {
	t.Helper()
	out, err := output(dir, nil, program(t), "init", "--kubernetes=jobs/osqueue", "--token=worker=worker", "--token=metrics=reader")
	check(t, err)
	return out
}

// docker runs containers. What it makes has its name.
type docker struct {
	t    *testing.T
	name string
}

func (d *docker) run(args ...string) string {
	d.t.Helper()
	out, err := output("", nil, "docker", args...)
	if err != nil {
		d.t.Fatal(err)
	}
	return out
}

// pod starts the container of a pod with what Kubernetes would give it, and returns its name.
func (d *docker) pod(name string, p *corev1.PodSpec, secrets string, aliases ...string) string {
	d.t.Helper()
	c, user := p.Containers[0], p.SecurityContext
	args := []string{
		"run", "--detach", "--name", d.name + "-" + name, "--network", d.name, "--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges",
		"--user", fmt.Sprintf("%d:%d", *user.RunAsUser, *user.RunAsGroup), "--publish", "127.0.0.1::8080",
	}
	for _, a := range aliases {
		args = append(args, "--network-alias", a)
	}
	for _, m := range c.VolumeMounts {
		i := slices.IndexFunc(p.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name })
		switch {
		case i < 0: // of a claim
			args = append(args, "--volume", d.name+"-"+name+":"+m.MountPath)
		case p.Volumes[i].Secret != nil:
			args = append(args, "--volume", filepath.Join(secrets, p.Volumes[i].Secret.SecretName)+":"+m.MountPath+":ro")
		default:
			args = append(args, "--tmpfs", m.MountPath)
		}
	}
	args = append(args, "--volume", d.name+"-bucket:/bucket", c.Image)
	for _, a := range c.Args {
		args = append(args, strings.ReplaceAll(a, "$(NODE)", name))
	}
	d.run(args...)
	return d.name + "-" + name
}

// remove removes what the test has made, and shows what the containers have said if it failed.
func (d *docker) remove() {
	list := func(args ...string) []string {
		out, _ := output("", nil, "docker", append(args, "--quiet", "--filter", "name="+d.name)...)
		return strings.Fields(out)
	}
	for _, c := range list("ps", "--all") {
		if d.t.Failed() {
			out, _ := output("", nil, "sh", "-c", "docker logs --tail 30 "+c+" 2>&1")
			d.t.Log(out)
		}
		_, _ = output("", nil, "docker", "rm", "--force", "--volumes", c)
	}
	for _, v := range list("volume", "ls") {
		_, _ = output("", nil, "docker", "volume", "rm", "--force", v)
	}
	_, _ = output("", nil, "docker", "network", "rm", d.name)
	_, _ = output("", nil, "docker", "image", "rm", "--force", "osqueue:"+version)
}

// The image is loaded, and runs the pods of the chart with the Secrets of osqueue init. They become a cluster, pass
// the probes of the chart, and run a job. There is no Kubernetes here: the names of the pods are aliases in a network.
func TestPodsRunFromTheImage(t *testing.T) {
	if _, err := output("", nil, "docker", "version"); err != nil {
		t.Skipf("no container engine: %v", err)
	}
	d := &docker{t: t, name: fmt.Sprintf("osqueue-release-%d", os.Getpid())}
	t.Cleanup(d.remove)
	d.run("load", "--quiet", "--input", filepath.Join(dist, "osqueue_0.1.0_image_amd64.tar"))
	d.run("network", "create", d.name)
	work, all := t.TempDir(), objects{}
	all.decode(t, initialized(t, work))
	for _, o := range all {
		writeSecret(t, work, o.(*corev1.Secret))
	}
	rendered, err := render(t, everything())
	check(t, err)
	set := rendered["StatefulSet osqueue"].(*appsv1.StatefulSet)
	var nodes []string
	for i := range *set.Spec.Replicas {
		pod := fmt.Sprintf("osqueue-%d", i)
		nodes = append(nodes, d.pod(pod, &set.Spec.Template.Spec, work, pod+".osqueue-nodes", "osqueue"))
	}
	c := set.Spec.Template.Spec.Containers[0]
	for _, node := range nodes {
		for _, probe := range []*corev1.Probe{c.StartupProbe, c.LivenessProbe, c.ReadinessProbe} {
			d.passes(node, probe.HTTPGet, filepath.Join(work, "certs/ca.crt"))
		}
	}
	d.pod("worker", &rendered["Deployment osqueue-worker"].(*appsv1.Deployment).Spec.Template.Spec, work)
	result := d.run("run", "--rm", "--network", d.name, "--user", "0", "--volume", filepath.Join(work, "certs")+":/admin:ro", c.Image,
		"submit", "version", "{}", "--wait", "--servers", "osqueue:8080", "--ca", "/admin/ca.crt", "--token-file", "/admin/admin.token")
	if !strings.HasPrefix(result, `"osqueue `+version+`\n`) {
		t.Errorf("the job's result is %s", result)
	}
}

// writeSecret writes the files of a Secret into a folder of its name, as the pods see them.
func writeSecret(t *testing.T, dir string, s *corev1.Secret) {
	t.Helper()
	dir = filepath.Join(dir, s.Name)
	check(t, os.Mkdir(dir, 0o755))
	for name, text := range s.StringData {
		path := filepath.Join(dir, name)
		check(t, os.WriteFile(path, []byte(text), 0o440))
		check(t, os.Chown(path, 0, imageUser))
	}
	check(t, os.Chmod(filepath.Dir(dir), 0o755))
}

// passes waits until a node answers a probe.
func (d *docker) passes(node string, probe *corev1.HTTPGetAction, ca string) {
	d.t.Helper()
	pool := x509.NewCertPool()
	pem, err := os.ReadFile(ca)
	check(d.t, err)
	pool.AppendCertsFromPEM(pem)
	c := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
	defer c.CloseIdleConnections()
	address, _, _ := strings.Cut(d.run("port", node, "8080/tcp"), "\n")
	url := strings.ToLower(string(probe.Scheme)) + "://" + address + probe.Path
	for end := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		a, err := c.Get(url)
		if err == nil {
			a.Body.Close()
			if a.StatusCode == http.StatusOK {
				return
			}
			err = fmt.Errorf("%s", a.Status)
		}
		if time.Now().After(end) {
			d.t.Fatalf("%s of %s: %v", probe.Path, node, err)
		}
	}
}
