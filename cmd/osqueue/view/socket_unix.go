//go:build unix

package view

import (
	"io/fs"
	"syscall"
)

// ownerOf returns the user id of the owner of a file.
func ownerOf(info fs.FileInfo) (uid int, known bool) {
	st, known := info.Sys().(*syscall.Stat_t)
	if !known {
		return 0, false
	}
	return int(st.Uid), true
}
