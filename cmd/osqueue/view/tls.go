package view

import (
	"crypto/tls"

	"github.com/spf13/pflag"

	"osqueue/client"
)

// tlsFlags are the flags for calling a cluster that has certificates.
type tlsFlags struct{ ca, cert, key string }

func (f *tlsFlags) bind(flags *pflag.FlagSet, getenv func(string) string) {
	flags.StringVar(&f.ca, "ca", "", "file with the certificates of the cluster's CA; servers are then called by https (environment: OSQUEUE_CA)")
	flags.StringVar(&f.cert, "cert", getenv("OSQUEUE_CERT"), "file with a client certificate (environment: OSQUEUE_CERT)")
	flags.StringVar(&f.key, "key", getenv("OSQUEUE_KEY"), "file with the private key of --cert (environment: OSQUEUE_KEY)")
}

// config returns the TLS configuration for a CA in PEM form and the client certificate of the
// flags, or nil if there is neither.
func (f *tlsFlags) config(ca string) (*tls.Config, error) {
	if ca == "" && f.cert == "" && f.key == "" {
		return nil, nil
	}
	var pem []byte
	if ca != "" {
		pem = []byte(ca)
	}
	cfg, err := client.TLSOf(pem, f.cert, f.key)
	if err != nil {
		return nil, Usagef("--ca, --cert and --key: %v", err)
	}
	return cfg, nil
}
