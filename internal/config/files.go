package config

import (
	"maps"
	"os"
	"slices"

	promconfig "github.com/prometheus/common/config"
)

// checkFiles reports the files with certificates and secrets that cannot be used now, so that a wrong path is found when
// the configuration is read, not in the middle of the night when it is first needed.
func (c *Cluster) checkFiles() fieldErrors {
	var errs fieldErrors
	_, err := c.FlinkClient()
	errs.add(err, "http.tls_config")
	checkSecretFiles(&errs, "http", &c.HTTP)
	_, err = c.ReporterClient()
	errs.add(err, "taskmanagers.http.tls_config")
	checkSecretFiles(&errs, "taskmanagers.http", &c.TaskManagers.HTTP)
	if c.Kafka.TLS != nil {
		_, err := promconfig.NewTLSConfig(c.Kafka.TLS)
		errs.add(err, "kafka.tls_config")
	}
	errs.add(checkReadable(c.Kafka.SASL.PasswordFile), "kafka.sasl.password_file")
	return errs
}

func checkSecretFiles(errs *fieldErrors, field string, c *promconfig.HTTPClientConfig) {
	if b := c.BasicAuth; b != nil {
		errs.add(checkReadable(b.UsernameFile), "%s.basic_auth.username_file", field)
		errs.add(checkReadable(b.PasswordFile), "%s.basic_auth.password_file", field)
	}
	if a := c.Authorization; a != nil {
		errs.add(checkReadable(a.CredentialsFile), "%s.authorization.credentials_file", field)
	}
	if o := c.OAuth2; o != nil {
		errs.add(checkReadable(o.ClientSecretFile), "%s.oauth2.client_secret_file", field)
		errs.add(checkReadable(o.ClientCertificateKeyFile), "%s.oauth2.client_certificate_key_file", field)
	}
	if c.HTTPHeaders != nil {
		for _, name := range slices.Sorted(maps.Keys(c.HTTPHeaders.Headers)) {
			for i, file := range c.HTTPHeaders.Headers[name].Files {
				errs.add(checkReadable(file), "%s.http_headers.%s.files[%d]", field, name, i)
			}
		}
	}
}

// checkReadable reads the file, because opening a directory succeeds. The empty path is fine.
func checkReadable(path string) error {
	if path == "" {
		return nil
	}
	_, err := os.ReadFile(path)
	return err
}
