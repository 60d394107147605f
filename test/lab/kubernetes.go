package lab

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/flink-lineage/flink-lineage-exporter/test/host"
)

// Where Flink keeps a cluster's leaders: one ConfigMap, whose values are "session id,address".
const (
	kubernetesNamespace = "default"
	leaderConfigMap     = clusterID + "-cluster-config-map"
	leaderKey           = "org.apache.flink.k8s.leader.restserver"
)

// kubernetes is the least of a Kubernetes that serves ConfigMaps: etcd and kube-apiserver, without a kubelet.
type kubernetes struct {
	url    string
	token  string
	client *http.Client
}

// KubernetesReady returns nil if clusters with Kubernetes high availability can be started at once, or an error that says what is missing.
func KubernetesReady() error {
	if _, err := exec.LookPath("etcd"); err != nil {
		return fmt.Errorf("%w (Debian: etcd-server)", err)
	}
	_, _, err := findAPIServer()
	return err
}

// PrepareKubernetes installs what KubernetesReady looks for: etcd with apt-get, which wants root, and kube-apiserver, built from the module
// in kube-apiserver/. The build takes about ten minutes on two cores, once for a cache folder; it is niced.
func PrepareKubernetes(ctx context.Context, log io.Writer) error {
	if _, err := exec.LookPath("etcd"); err != nil {
		fmt.Fprintln(log, "lab: installing etcd-server")
		if err := run(ctx, "apt-get", "update", "-qq"); err != nil {
			return err
		}
		if err := run(ctx, "apt-get", "install", "-y", "-qq", "--no-install-recommends", "etcd-server"); err != nil {
			return err
		}
	}
	source, binary, err := findAPIServer()
	if err == nil || source == "" {
		return err
	}
	fmt.Fprintln(log, "lab: building kube-apiserver")
	part := fmt.Sprintf("%s.%d", binary, os.Getpid())
	defer os.Remove(part)
	if err := run(ctx, "nice", "-n", "15", "go", "build", "-C", source, "-trimpath", "-ldflags=-s -w", "-o", part, "."); err != nil {
		return fmt.Errorf("build kube-apiserver in %s: %w", source, err)
	}
	return os.Rename(part, binary)
}

// findAPIServer returns where the sources of kube-apiserver are and where its binary is, or has to be built if there is an error.
func findAPIServer() (source, binary string, err error) {
	top, err := host.Repository()
	if err != nil {
		return "", "", err
	}
	source = filepath.Join(top, "test", "lab", "kube-apiserver")
	hash := sha256.New()
	for _, name := range []string{"go.mod", "go.sum", "main.go"} {
		text, err := os.ReadFile(filepath.Join(source, name))
		if err != nil {
			return "", "", err
		}
		hash.Write(text)
	}
	cache, err := cacheDir()
	if err != nil {
		return "", "", err
	}
	binary = filepath.Join(cache, "kube-apiserver-"+hex.EncodeToString(hash.Sum(nil))[:12])
	if _, err := os.Stat(binary); err != nil {
		return source, binary, fmt.Errorf("no kube-apiserver at %s: build it once with PrepareKubernetes", binary)
	}
	return source, binary, nil
}

// startKubernetes starts etcd and kube-apiserver and waits until namespace "default" is there.
func (c *Cluster) startKubernetes(ctx context.Context) error {
	if err := KubernetesReady(); err != nil {
		return err
	}
	_, binary, err := findAPIServer()
	if err != nil {
		return err
	}
	ports, err := reservePorts(3)
	if err != nil {
		return err
	}
	etcdURL, peerURL := loopbackURL(ports[0].port), loopbackURL(ports[1].port)
	etcd, err := c.process("etcd", []string{"etcd", "--data-dir", filepath.Join(c.dir, "etcd", "data"), "--listen-client-urls", etcdURL,
		"--advertise-client-urls", etcdURL, "--listen-peer-urls", peerURL, "--initial-advertise-peer-urls", peerURL,
		"--initial-cluster", "default=" + peerURL}, nil, ports[:2]...)
	if err != nil {
		return err
	}
	dir := filepath.Join(c.dir, "kube-apiserver")
	file := func(name string) string { return filepath.Join(dir, name) }
	port := ports[2].port
	// AlwaysAllow turns anonymous access off, hence the token. The certificate is made by the server itself; one key signs and checks
	// service account tokens, which nobody uses.
	server, err := c.process("kube-apiserver", []string{binary, "--etcd-servers", etcdURL, "--bind-address", "127.0.0.1",
		"--advertise-address", "127.0.0.1", "--secure-port", strconv.Itoa(port), "--cert-dir", dir, "--authorization-mode", "AlwaysAllow",
		"--token-auth-file", file("tokens"), "--service-account-issuer", "lab", "--service-account-key-file", file("sa.key"),
		"--service-account-signing-key-file", file("sa.key"), "--endpoint-reconciler-type", "none"}, nil, ports[2])
	if err != nil {
		return err
	}
	c.services = append(c.services, server, etcd)
	c.kubernetes = &kubernetes{url: "https://127.0.0.1:" + strconv.Itoa(port), token: rand.Text()}
	if err := writeKubernetesFiles(file, c.kubernetes); err != nil {
		return err
	}
	c.java.env = append(c.java.env, "KUBECONFIG="+file("kubeconfig"))
	if err := errors.Join(etcd.Start(), server.Start()); err != nil {
		return err
	}
	return c.Wait(ctx, "kube-apiserver answers", func(ctx context.Context) (bool, error) {
		if err := c.kubernetes.trust(file("apiserver.crt")); err != nil {
			return false, err
		}
		_, err := c.kubernetes.get(ctx, "/api/v1/namespaces/"+kubernetesNamespace)
		return err == nil, err
	})
}

// writeKubernetesFiles writes the token, the key and the kubeconfig. The kubeconfig is block-style YAML: what begins with "{" is read as
// JSON by the client in Flink 1.20.
func writeKubernetesFiles(file func(string) string, k *kubernetes) error {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return err
	}
	pemKey := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
	kubeconfig := `apiVersion: v1
kind: Config
current-context: lab
contexts:
- name: lab
  context:
    cluster: lab
    user: lab
users:
- name: lab
  user:
    token: ` + k.token + `
clusters:
- name: lab
  cluster:
    server: ` + k.url + `
    certificate-authority: ` + file("apiserver.crt") + "\n"
	return errors.Join(
		os.WriteFile(file("tokens"), []byte(k.token+",lab,lab\n"), 0o600),
		os.WriteFile(file("sa.key"), pemKey, 0o600),
		os.WriteFile(file("kubeconfig"), []byte(kubeconfig), 0o600))
}

// trust makes the client once the server has written its certificate.
func (k *kubernetes) trust(certificate string) error {
	if k.client != nil {
		return nil
	}
	text, err := os.ReadFile(certificate)
	if err != nil {
		return err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return fmt.Errorf("%s: no certificate in it", certificate)
	}
	k.client = &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}}
	return nil
}

func (k *kubernetes) get(ctx context.Context, path string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, k.url+path, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+k.token)
	resp, err := k.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = &StatusError{URL: req.URL.String(), Code: resp.StatusCode, Body: string(text)}
	}
	return text, err
}

func (c *Cluster) kubernetesLeader(ctx context.Context) (string, error) {
	text, err := c.kubernetes.get(ctx, "/api/v1/namespaces/"+kubernetesNamespace+"/configmaps/"+leaderConfigMap)
	var status *StatusError
	if errors.As(err, &status) && status.Code == http.StatusNotFound {
		return "", fmt.Errorf("%w: there is no ConfigMap %s", ErrNoLeader, leaderConfigMap)
	}
	if err != nil {
		return "", fmt.Errorf("ask kube-apiserver for the leader: %w", err)
	}
	return parseLeaderConfigMap(text)
}

// parseLeaderConfigMap reads the REST leader's address from the ConfigMap's JSON.
func parseLeaderConfigMap(text []byte) (string, error) {
	var configMap struct {
		Data map[string]string `json:"data"`
	}
	if err := json.Unmarshal(text, &configMap); err != nil {
		return "", fmt.Errorf("ConfigMap %s: %w", leaderConfigMap, err)
	}
	value := configMap.Data[leaderKey]
	if value == "" {
		return "", fmt.Errorf("%w: ConfigMap %s has no %s", ErrNoLeader, leaderConfigMap, leaderKey)
	}
	session, address, ok := strings.Cut(value, ",")
	if !ok || session == "" || address == "" {
		return "", fmt.Errorf("ConfigMap %s: %s is %q, want \"session id,address\"", leaderConfigMap, leaderKey, value)
	}
	return address, nil
}
