// Package clitest runs command lines in tests, against a fake of one node with just enough
// of a queue for the commands. Only tests import it.
package clitest
