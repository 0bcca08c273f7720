package certs

import "strings"

// validHost reports whether h can be a host name. It may begin with "*." and end with a dot.
func validHost(h string) bool {
	h = strings.TrimSuffix(strings.TrimPrefix(h, "*."), ".")
	if h == "" || len(h) > 253 {
		return false
	}
	for label := range strings.SplitSeq(h, ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
		for i := range len(label) {
			if !isNameByte(label[i]) {
				return false
			}
		}
	}
	return true
}

// isNameByte reports whether c is a letter, a digit, '-' or '_'.
func isNameByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_'
}
