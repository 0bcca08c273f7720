package hooks

import (
	"errors"
	"net/netip"
	"testing"
)

// TestAddresses has the addresses that a hook must not reach, in their odd forms too.
func TestAddresses(t *testing.T) {
	t.Parallel()
	for text, public := range map[string]bool{
		"8.8.8.8": true, "1.1.1.1": true, "2606:4700:4700::1111": true, "64:ff9b::808:808": true, "::ffff:8.8.8.8": true,

		"127.0.0.1": false, "127.8.9.10": false, "::1": false, "0.0.0.0": false, "::": false, "0.1.2.3": false,
		"10.0.0.1": false, "172.16.0.1": false, "172.31.255.255": false, "192.168.1.1": false, "fd00::1": false, "fd00:ec2::254": false,
		"169.254.169.254": false, "fe80::1": false, "fe80::1%eth0": false, "100.64.0.1": false, "100.100.100.200": false, "192.0.0.192": false,
		"::ffff:127.0.0.1": false, "::ffff:169.254.169.254": false, "::ffff:0:0": false, "::127.0.0.1": false,
		"::ffff:0:7f00:1": false, "64:ff9b::7f00:1": false, "64:ff9b::a9fe:a9fe": false, "64:ff9b:1::1": false, "2002:7f00:1::": false, "2001:0:7f00:1::": false,
		"224.0.0.1": false, "ff02::1": false, "255.255.255.255": false, "240.0.0.1": false, "198.18.0.1": false,
		"192.0.2.1": false, "2001:db8::1": false, "fec0::1": false, "192.88.99.1": false, "100::1": false,
	} {
		err := checkAddress(netip.MustParseAddr(text), nil)
		if public != (err == nil) || err != nil && !errors.Is(err, ErrAddress) {
			t.Errorf("%s: %v, public %v", text, err, public)
		}
	}
}

func TestAllowedAddresses(t *testing.T) {
	t.Parallel()
	var allowed []netip.Prefix
	for _, text := range []string{"10.1.0.0/16", "127.0.0.1", "::1", "fd00::/8"} {
		p, err := ParseNetwork(text)
		if err != nil {
			t.Fatal(err)
		}
		allowed = append(allowed, p)
	}
	for text, ok := range map[string]bool{
		"10.1.2.3": true, "::ffff:10.1.2.3": true, "64:ff9b::a01:203": true, "127.0.0.1": true, "::1": true, "fd12::1": true,
		"10.2.0.1": false, "127.0.0.2": false, "169.254.169.254": false,
	} {
		if err := checkAddress(netip.MustParseAddr(text), allowed); ok != (err == nil) {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, text := range []string{"", "10.0.0.0/33", "example.com", "10.0.0"} {
		if _, err := ParseNetwork(text); err == nil {
			t.Errorf("%q is a network", text)
		}
	}
}

func FuzzCheckAddress(f *testing.F) {
	f.Add([]byte{127, 0, 0, 1})
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		addr, ok := netip.AddrFromSlice(b)
		if !ok || checkAddress(addr, nil) != nil {
			return
		}
		if plain := addr.Unmap(); plain.IsLoopback() || plain.IsPrivate() || plain.IsLinkLocalUnicast() || plain.IsUnspecified() || plain.IsMulticast() {
			t.Fatalf("%s passes", addr)
		}
	})
}
