#!/usr/bin/env bash
# Rewrites the module path in the checkout in the current directory:
#
#   rename-module.sh MODULE      for example example.com/acme/osqueue
#
# The path stands in import declarations, go.mod files, the import rules of the linter, the
# options of the code generators, and the programs of docs/. It is replaced where a folder
# of this repository follows it, so no other text is changed.
set -euo pipefail

new=${1:-}
old=$(GOWORK=off go list -m)
if ! [[ $new =~ ^[a-zA-Z0-9][a-zA-Z0-9._~/-]*[a-zA-Z0-9]$ ]]; then
	echo "MODULE must be a module path such as example.com/acme/osqueue, not \"$new\"" >&2
	exit 2
fi

folders=$(git ls-files '*.go' | cut -d/ -f1 | sort -u | paste -sd'|')
export OLD=$old NEW=$new FOLDERS=$folders
git ls-files -z | xargs -0 grep -lIZF "$old" | xargs -0 perl -pi -e '
	s{(?<![\w./~-])\Q$ENV{OLD}\E(?=/(?:$ENV{FOLDERS})(?![\w-]))}{$ENV{NEW}}g;
	s{^(module|\s+module-path:) \Q$ENV{OLD}\E(?=$|\s)}{$1 $ENV{NEW}};
	s{(\{pkg:) \Q$ENV{OLD}\E(?=,)}{$1 $ENV{NEW}};
	s{^(\s+)\Q$ENV{OLD}\E(?= (?:v[0-9]|=> \.))}{$1$ENV{NEW}};
'
git ls-files -z '*.go' | xargs -0 gofmt -w # imports are sorted by path
echo "the module $old is $new now"
