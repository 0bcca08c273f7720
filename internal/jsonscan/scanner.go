// Package jsonscan reads small JSON bodies in one pass, without reflection and without an
// allocation of its own.
//
// # Problem
//
// A general decoder spends most of its time on cases that the bodies of busy requests do not
// have: escapes in names, repeated names, numbers with exponents. A caller reads its body with a
// Scanner first, and gives it to the general decoder when the Scanner returns false.
//
// # Contract
//
// A Scanner accepts only valid JSON (RFC 8259), and returns the values that a general decoder
// returns. It returns false for everything invalid and for valid JSON that it does not
// handle: texts with escapes where the text is wanted, numbers that are no short integers, and
// values that are nested too deeply. Names that occur twice are the caller's concern, as is
// UTF-8. Fuzz tests compare it and its callers with the general decoder.
package jsonscan

// Scanner reads one JSON text. After a method has returned false, its position is undefined.
type Scanner struct {
	in []byte
	at int
}

// New returns a Scanner at the beginning of in, which must not change while it is read.
func New(in []byte) Scanner { return Scanner{in: in} }

// Offset returns the position in the input, in bytes.
func (s *Scanner) Offset() int { return s.at }

// End skips white space and reports whether the input ends there.
func (s *Scanner) End() bool {
	s.space()
	return s.at == len(s.in)
}

// Object reads an object and calls field for each name. field must read the value. Object
// returns false if field does.
func (s *Scanner) Object(field func(name []byte) bool) bool {
	if !s.take('{') {
		return false
	}
	for first := true; !s.take('}'); first = false {
		if !first && !s.take(',') {
			return false
		}
		name, ok := s.Text()
		if !ok || !s.take(':') || !field(name) {
			return false
		}
	}
	return true
}

// Array reads an array and calls item at each of its values. item must read the value. Array
// returns false if item does.
func (s *Scanner) Array(item func() bool) bool {
	if !s.take('[') {
		return false
	}
	for first := true; !s.take(']'); first = false {
		if !first && !s.take(',') || !item() {
			return false
		}
	}
	return true
}

// Text reads a text without escapes. The result is part of the input.
func (s *Scanner) Text() ([]byte, bool) {
	if !s.take('"') {
		return nil, false
	}
	for start := s.at; s.at < len(s.in); s.at++ {
		switch c := s.in[s.at]; {
		case c == '"':
			s.at++
			return s.in[start : s.at-1], true
		case c == '\\' || c < ' ':
			return nil, false
		}
	}
	return nil, false
}

// intDigits is the number of digits that every int64 can have.
const intDigits = 18

// Int reads an integer of up to 18 digits without a fraction or an exponent.
func (s *Scanner) Int() (n int64, ok bool) {
	s.space()
	negative := s.is('-')
	if negative {
		s.at++
	}
	start := s.at
	for ; s.at < len(s.in) && isDigit(s.in[s.at]); s.at++ {
		n = 10*n + int64(s.in[s.at]-'0')
		if s.at-start == intDigits {
			return 0, false
		}
	}
	digits := s.in[start:s.at]
	if len(digits) == 0 || digits[0] == '0' && (len(digits) > 1 || negative) || s.is('.') || s.is('e') || s.is('E') {
		return 0, false
	}
	if negative {
		n = -n
	}
	return n, true
}

// maxDepth is the largest number of objects and arrays within each other.
const maxDepth = 64

// Raw reads any value. The result is part of the input, without white space around it.
func (s *Scanner) Raw() ([]byte, bool) {
	s.space()
	start := s.at
	ok := s.value(maxDepth)
	return s.in[start:s.at:s.at], ok
}

func (s *Scanner) value(depth int) bool {
	if depth == 0 {
		return false
	}
	s.space()
	if s.at == len(s.in) {
		return false
	}
	switch c := s.in[s.at]; c {
	case '"':
		return s.escaped()
	case '{':
		return s.members(depth)
	case '[':
		return s.Array(func() bool { return s.value(depth - 1) })
	case 't':
		return s.word("true")
	case 'f':
		return s.word("false")
	case 'n':
		return s.word("null")
	default:
		return s.number()
	}
}

// members reads an object whose names may have escapes.
func (s *Scanner) members(depth int) bool {
	s.at++
	for first := true; !s.take('}'); first = false {
		if !first && !s.take(',') {
			return false
		}
		s.space()
		if !s.is('"') || !s.escaped() || !s.take(':') || !s.value(depth-1) {
			return false
		}
	}
	return true
}

// hexDigits is the number of digits behind \u.
const hexDigits = 4

// escaped reads a text that may have escapes.
func (s *Scanner) escaped() bool {
	for s.at++; s.at < len(s.in); s.at++ {
		switch c := s.in[s.at]; {
		case c == '"':
			s.at++
			return true
		case c < ' ':
			return false
		case c == '\\':
			if !s.escape() {
				return false
			}
		}
	}
	return false
}

// escape moves from a backslash to the last byte of the escape.
func (s *Scanner) escape() bool {
	if s.at++; s.at == len(s.in) {
		return false
	}
	switch s.in[s.at] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return true
	case 'u':
		for range hexDigits {
			if s.at++; s.at == len(s.in) || !isHex(s.in[s.at]) {
				return false
			}
		}
		return true
	}
	return false
}

// number reads any number.
func (s *Scanner) number() bool {
	if s.is('-') {
		s.at++
	}
	if s.is('0') {
		s.at++ // and no digit may follow
	} else if !s.digits() {
		return false
	}
	if s.is('.') {
		if s.at++; !s.digits() {
			return false
		}
	}
	if s.is('e') || s.is('E') {
		if s.at++; s.is('+') || s.is('-') {
			s.at++
		}
		return s.digits()
	}
	return true
}

// digits reads at least one digit.
func (s *Scanner) digits() bool {
	start := s.at
	for s.at < len(s.in) && isDigit(s.in[s.at]) {
		s.at++
	}
	return s.at > start
}

func (s *Scanner) word(w string) bool {
	if len(s.in)-s.at < len(w) || string(s.in[s.at:s.at+len(w)]) != w {
		return false
	}
	s.at += len(w)
	return true
}

func (s *Scanner) space() {
	for s.at < len(s.in) && (s.in[s.at] == ' ' || s.in[s.at] == '\t' || s.in[s.at] == '\n' || s.in[s.at] == '\r') {
		s.at++
	}
}

// is reports whether c comes next.
func (s *Scanner) is(c byte) bool { return s.at < len(s.in) && s.in[s.at] == c }

// take skips white space, and c if it comes next.
func (s *Scanner) take(c byte) bool {
	s.space()
	if !s.is(c) {
		return false
	}
	s.at++
	return true
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isHex(c byte) bool { return isDigit(c) || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F' }
