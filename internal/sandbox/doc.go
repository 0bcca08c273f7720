// Package sandbox runs a program for a job so that the job harms neither the
// worker nor its other jobs, as far as the chosen level goes.
//
// # Problem
//
// A worker runs programs that others have written, and sometimes programs that
// producers have sent. Such a program may use up the memory, the processes or the
// disk, write without end, ignore SIGTERM, leave processes behind, read the
// worker's secrets, or connect to internal machines. The description of each level
// lists the attacks that it prevents, and those that it does not.
//
// # Levels
//
// None bounds stdout and stderr, and ends the process group of a command that
// must stop: it sends SIGTERM, and SIGKILL after KillDelay. The command shares the
// worker's environment, directory and user; only descriptors 0 to 2 are its own.
// The level is for commands that the operator has written. It guarantees nothing
// against a hostile command.
//
// Process (Linux) adds, before the program's first instruction: a session of
// its own, resource limits (CPU time, address space, open files, processes,
// file size, no core), no_new_privs (setuid programs gain nothing), a clean
// environment, and a directory of its own as cwd, HOME and TMPDIR. The worker checks
// the size and depth of the directory at intervals, and removes it afterwards. When
// the program has ended, or must end, the worker ends all its processes, daemons
// included. If a process was left running, the command fails (ErrLeftBehind).
//
//   - The worker is root: each command has a user id of its own (Config.UIDs), which
//     no other process has. The command cannot signal, trace or read the worker or
//     other jobs. The worker finds daemons by the user id, so they cannot hide. It
//     needs one id more than there are commands at once; while all ids are in use,
//     commands wait for one. The worker removes all entries of /tmp, /var/tmp and
//     /dev/shm that the user id owns.
//   - The worker is not root: commands run as the worker's user. A hostile command
//     can kill the worker and other jobs, and read and change all files of that user.
//     The worker makes itself undumpable, so that commands cannot read its environment
//     and memory. The worker is a subreaper: the kernel makes daemons its children. It knows
//     those of a command by a hard limit that is the command's number (RLIMIT_LOCKS).
//     A daemon that lowers this limit to the number of another running command lives until that
//     command ends. If it lowers the limit to another value, it is ended, but its command fails only
//     if no other command runs. The
//     limit on processes counts all processes of the user: during a fork bomb other
//     commands may be unable to fork, before Linux 5.14 in Namespace too.
//
// A filter of system calls (seccomp) refuses the calls that expose most of the kernel: mounts,
// new namespaces, tracing, keys, bpf, io_uring, modules, other socket families, and writing
// characters into the input of a terminal. At this level it also refuses System V objects and
// message queues, because they would outlive the command, and every socket unless Config.Net is
// NetHost. Where the kernel has Landlock, the command reaches only its directory, the system's
// programs and libraries, a few files of /etc, /proc, and Config.ReadOnly; it cannot write to
// /tmp or /dev/shm. From version 6 of Landlock on, it can signal only its own processes.
//
// At this level a hostile command can still: without Landlock, read every file that all
// users may read, and fill directories that all users may write to while it runs; without
// a control group use memory limit × process limit in sum; slow the machine down; attack
// the kernel by the remaining system calls.
//
// Namespace (Linux, bubblewrap) adds to Process: namespaces for users, mounts,
// processes, network, IPC and host name. The network is an unconnected loopback.
// The file system shows, read-only, /usr, the few files of /etc that programs need
// to start, and the paths of Config.ReadOnly. /tmp and /dev/shm are in memory,
// bounded, and freed with the command. Daemons end with the command; the worker detects
// them before (ErrLeftBehind).
//
// At this level a hostile command can still: use its CPU share, read /usr,
// measure the machine, and attack the kernel through the remaining calls. For
// untrusted code use a virtual machine.
//
// Control groups (version 2) add to both levels if the worker is root and may
// delegate the controllers memory and pids. They bound the sum of memory, files in
// memory included, and the number of processes, and they kill all processes of a
// command at once. With Config.CPUWeight and Config.IOWeight the commands of the box together
// have this share of CPU and disks against the worker's own process; Box.Describe says if the
// kernel cannot weigh them.
//
// # How limits take effect before the first instruction
//
// If the worker set the limits on itself, they would limit the worker. So it starts this
// program again, as a helper, with the user, the group and the directory of the command; in
// Namespace bwrap starts the helper.
//
//	worker                                helper
//	start, with a socket             ──▶
//	order: program, limits, guard    ──▶  sets Landlock and the filter on all threads
//	limits of the control group      ◀──  ready
//	go                               ──▶  sets its limits, executes the program
//	end of the socket: it runs       ◀──  (or the number of an error)
//
// The limits come last because a Go program has more threads and more address space than many
// a limit allows. The worker keeps one thread with no_new_privs for each command, from
// its start to its end, so that the command's parent-death signal fires only when the worker
// has ended. If the helper cannot do a step, the program does not run.
//
// # How all processes are ended
//
// Killing processes one by one races with processes that fork. The kernel kills all
// processes of a namespace, of a user id, or of a control group, at one moment. Without these, the
// worker first takes the right to fork from every process that it finds (it sets the
// limit to 0, which the process cannot raise) and stops it. When a walk of /proc finds
// no process that can fork, the worker kills them by pidfd, so that it never hits a
// reused number. The number of processes is limited, so the first phase ends. (Root
// without CAP_SYS_RESOURCE cannot set the limit of others; then it only stops them.)
//
// # Failure stance
//
// If this machine cannot provide a level, New returns an error that names the missing
// feature; it runs a trivial command to find out. A box never falls back to a lower
// level. Box.Describe says whether the optional control groups are in force. If the
// worker is killed, the kernel kills the first process of each command. Other
// processes are ended when the next box is made if they had a control group, or else
// when their user id is used next. The next box in the same Config.Dir removes the
// directories, unless the file system is shared by several machines. If the check at the start takes
// too long, the error says that, and not that the machine lacks a feature.
package sandbox
