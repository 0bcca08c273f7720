// Package config has the command config, which shows and checks the settings of a node or a worker without starting it.
//
// A setting comes from a flag, the environment, a file or a default, in this order, and an operator has to know from which.
// So the arguments of osqueue config show and check are the command line that starts the program: they read what it would
// read, with its own code (view.Settings). show prints each value with its source, without secrets. check fails as the
// start would, before it opens a bucket or a port: a node's certificates, tokens and rules are read, nothing is called.
package config
