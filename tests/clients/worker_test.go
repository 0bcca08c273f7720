package clients

import "errors"

var errNotYet = errors.New("not yet")
