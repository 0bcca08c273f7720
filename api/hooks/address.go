package hooks

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"syscall"
	"time"
)

// ErrAddress is wrapped by the errors about an address that hooks may not reach.
var ErrAddress = errors.New("the address is not public; allow it with --hook-allow on the nodes")

// reserved are the networks that no receiver on the internet has, apart from those that
// netip.Addr knows as private, loopback, link-local, multicast or unspecified.
var reserved = prefixes(
	"0.0.0.0/8",       // this network
	"100.64.0.0/10",   // shared by providers; metadata of one cloud is there
	"192.0.0.0/24",    // protocol assignments; metadata of another one
	"192.0.2.0/24",    // documentation, with the next two
	"198.51.100.0/24", //
	"203.0.113.0/24",  //
	"192.88.99.0/24",  // relays of 6to4
	"198.18.0.0/15",   // benchmarks
	"240.0.0.0/4",     // future use, and broadcast
	"::/96",           // IPv4-compatible
	"::ffff:0:0:0/96", // IPv4-translated
	"64:ff9b:1::/48",  // local NAT64
	"100::/64",        // discard
	"2001::/23",       // Teredo and other protocols
	"2001:db8::/32",   // documentation
	"2002::/16",       // 6to4
	"3fff::/20",       // documentation
	"5f00::/16",       // segment routing
	"fec0::/10",       // site-local
)

// nat64 is the network whose addresses have an IPv4 address in their last four bytes.
var nat64 = netip.MustParsePrefix("64:ff9b::/96")

func prefixes(texts ...string) (list []netip.Prefix) {
	for _, text := range texts {
		list = append(list, netip.MustParsePrefix(text))
	}
	return list
}

// ParseNetwork reads the value of --hook-allow: a network, or one address.
func ParseNetwork(text string) (netip.Prefix, error) {
	if addr, err := netip.ParseAddr(text); err == nil {
		return netip.PrefixFrom(addr.Unmap(), addr.Unmap().BitLen()), nil
	}
	p, err := netip.ParsePrefix(text)
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("%q is not a network such as 10.0.0.0/8", text)
	}
	return p.Masked(), nil
}

// checkAddress returns an error that wraps ErrAddress if hooks may not reach an address.
func checkAddress(addr netip.Addr, allowed []netip.Prefix) error {
	addr = addr.Unmap().WithZone("")
	if contains(allowed, addr) {
		return nil
	}
	inner := addr
	if nat64.Contains(addr) {
		b := addr.As16()
		inner = netip.AddrFrom4([4]byte(b[12:]))
		if contains(allowed, inner) {
			return nil
		}
	}
	public := inner.IsGlobalUnicast() && !inner.IsPrivate() && !contains(reserved, inner)
	if !public {
		return fmt.Errorf("%s: %w", addr, ErrAddress)
	}
	return nil
}

// Unreachable returns why no event can reach a URL, judged by its name; nil if the name does not show it.
func (s *Sender) Unreachable(ctx context.Context, rawURL string) error {
	u, err := url.Parse(rawURL)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	addr, err := netip.ParseAddr(u.Hostname())
	addrs := []netip.Addr{addr}
	switch {
	case err == nil:
	case s.cfg.Resolver == nil:
		return nil
	default:
		if addrs, err = s.cfg.Resolver.LookupNetIP(ctx, "ip", u.Hostname()); err != nil {
			return fmt.Errorf("the name %s cannot be resolved now", u.Hostname())
		}
	}
	for _, addr := range addrs {
		if err = checkAddress(addr, s.cfg.Allow); err == nil {
			return nil
		}
	}
	return err
}

// lookupTimeout bounds the resolution of a name by Unreachable.
const lookupTimeout = 2 * time.Second

func contains(list []netip.Prefix, addr netip.Addr) bool {
	return slices.ContainsFunc(list, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// dialer returns a dial function that reaches public and allowed addresses only. The check is
// on the address of the connection, after the name was resolved.
func dialer(allowed []netip.Prefix, resolver *net.Resolver) func(ctx context.Context, network, address string) (net.Conn, error) {
	d := &net.Dialer{
		Timeout: dialTimeout, KeepAlive: 30 * time.Second, Resolver: resolver,
		Control: func(_, address string, _ syscall.RawConn) error {
			to, err := netip.ParseAddrPort(address)
			if err != nil {
				return fmt.Errorf("%q: %w", address, ErrAddress)
			}
			return checkAddress(to.Addr(), allowed)
		},
	}
	return d.DialContext
}
