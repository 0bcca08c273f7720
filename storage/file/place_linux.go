package file

import (
	"os"

	"golang.org/x/sys/unix"
)

// birthAndMount returns the time at which a directory was made, and the id of its mount, which
// the kernel does not use again. An older kernel or a file system may know neither.
func birthAndMount(d *os.File) (birth [2]int64, mount uint64) {
	var x unix.Statx_t
	if unix.Statx(int(d.Fd()), "", unix.AT_EMPTY_PATH, unix.STATX_BTIME|unix.STATX_MNT_ID_UNIQUE, &x) != nil {
		return birth, 0
	}
	if x.Mask&unix.STATX_BTIME != 0 {
		birth = [2]int64{x.Btime.Sec, int64(x.Btime.Nsec)}
	}
	return birth, x.Mnt_id
}
