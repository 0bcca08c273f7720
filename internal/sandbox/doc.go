// Package sandbox runs a program for a job so that the job harms neither the
// worker nor its other jobs, as far as the chosen level goes.
//
// # Problem
//
// A worker runs what others have written, and sometimes what others have sent.
// Such a program may take all memory, all processes or the whole disk, write
// without end, ignore being asked to stop, leave processes behind, read the
// worker's secrets, or talk to machines that it should not know. Each level
// names what of this it prevents; what it does not is said just as clearly.
//
// # Levels
//
// None bounds stdout and stderr, and ends the process group of a command that
// has to stop: SIGTERM, and SIGKILL after KillDelay. Environment, directory,
// user and descriptors 0 to 2 apart, all is the worker's. It is for commands
// that the operator has written. It guarantees nothing against a hostile one.
//
// Process (Linux) adds, before the program's first instruction: a session of
// its own, resource limits (CPU time, address space, open files, processes,
// file size, no core), no_new_privs (setuid programs gain nothing), a clean
// environment, a directory of its own as cwd, HOME and TMPDIR, bounded in size
// and depth by a watch, removed afterwards. When the program has ended, or must, all its
// processes are ended, daemons too; one that was left running makes the command
// fail (ErrLeftBehind).
//
//   - Worker is root: each command has a user id of its own (Config.UIDs), which
//     no other process has. It cannot signal, trace or read the worker or other
//     jobs; daemons are found by it, whatever they do to hide (with two ids more
//     than commands at once; while all ids are in use, commands wait for one). What the user id owns directly in /tmp, /var/tmp
//     and /dev/shm is removed.
//   - Worker is not root: commands run as the worker's user. A hostile one can
//     kill the worker and other jobs and read and change all files of that user.
//     The worker makes itself undumpable, so that its environment and memory
//     cannot be read. Daemons are found as children that the kernel gives to
//     the worker (subreaper); one that takes care to look like a part of another
//     running command (it copies that one's mark) lives until that one ends; one
//     that wipes it ends, but its command fails only if no other runs; if
//     the worker itself was started with no_new_privs, one that wipes its mark
//     lives on, and so may one that goes on as a new process all the time. The limit on processes counts all of the user's, so that while a
//     fork bomb goes off other commands may be unable to fork, in Namespace too.
//
// At this level a hostile command can still: use the network; read every file
// that is readable by all; fill directories that are writable by all while it
// runs; without a control group take memory limit × process limit in sum; make
// the machine slow; use System V memory and leave it behind; attack the kernel
// by any system call.
//
// Namespace (Linux, bubblewrap) adds to Process: namespaces for users, mounts,
// processes, network, IPC and host name. There is no network but an unconnected
// loopback; of the file system only /usr, the little of /etc that programs need
// to start, and what Config.ReadOnly names are there, read-only; /tmp and
// /dev/shm are in memory, bounded, and gone with the command. A filter (seccomp)
// refuses the system calls that open most of the kernel's surface: mounts, new
// namespaces, tracing, keys, bpf, io_uring, modules, foreign socket families,
// pushing characters into terminals. Daemons die with the command, and are
// noticed before (ErrLeftBehind).
//
// At this level a hostile command can still: use its CPU share, read /usr,
// measure the machine, and attack the kernel through the remaining calls. For
// code of unknown people use a virtual machine.
//
// Control groups (version 2) add to both, where the worker is root and the
// controllers memory and pids are its to hand on: memory, files in memory among
// it, and processes are bounded in sum, and all of a command is killed at once.
//
// # How limits come before the first instruction
//
// Setting limits in the worker would limit the worker, and a helper program
// would have to be installed. So the child starts traced, which stops it at its
// exec; the worker sets the limits on it with prlimit(2) and detaches. All
// commands start from one thread which has no_new_privs set and lives as long
// as the box, so that a command's parent-death signal fires only when the worker
// has died.
//
// # How all processes are ended
//
// Killing while others fork is a race. Those of a user id of their own the kernel
// counts and kills at one moment. A control group does, too. Otherwise first every
// process found loses the right to fork (its limit becomes 0, for good) and is
// stopped, until a walk of /proc finds no more that can fork; only then are they
// killed, by pidfd, so that a reused number is never hit. The number of processes
// is limited, so the first phase ends. (Root without CAP_SYS_RESOURCE cannot set
// the limit of others; stopping has to do then.)
//
// # Failure stance
//
// A level that this machine cannot give is an error of New, which runs a
// trivial command to find out, and says what is missing. There is no silent fall
// back to a lower one. Box.Describe says what of the optional parts (control
// groups) is in force. If the worker is killed, the first process of each
// command dies with it; what else is left is ended when the next box is made, if
// it had a control group, or else when the user id is used next. The next box
// in the same Config.Dir removes the directories, unless that is on a file system of
// several machines.
package sandbox
