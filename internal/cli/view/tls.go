package view

import (
	"crypto/tls"

	"github.com/spf13/pflag"

	"osqueue/client"
)

// tlsFlags are the flags for calling a cluster that has certificates.
type tlsFlags struct{ ca, cert, key string }

func (f *tlsFlags) bind(flags *pflag.FlagSet, getenv func(string) string) {
	flags.StringVar(&f.ca, "ca", getenv("OSQUEUE_CA"), "file with the certificates of the cluster's CA; servers are then called by https (environment: OSQUEUE_CA)")
	flags.StringVar(&f.cert, "cert", getenv("OSQUEUE_CERT"), "file with a client certificate (environment: OSQUEUE_CERT)")
	flags.StringVar(&f.key, "key", getenv("OSQUEUE_KEY"), "file with the private key of --cert (environment: OSQUEUE_KEY)")
}

// config returns the TLS configuration of the flags, or nil if none is given.
func (f *tlsFlags) config() (*tls.Config, error) {
	if *f == (tlsFlags{}) {
		return nil, nil
	}
	cfg, err := client.LoadTLS(f.ca, f.cert, f.key)
	if err != nil {
		return nil, Usagef("--ca, --cert and --key: %v", err)
	}
	return cfg, nil
}
