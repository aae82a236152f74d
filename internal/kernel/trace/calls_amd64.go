package trace

import "golang.org/x/sys/unix"

// firstArgument is where struct pt_regs has the first argument of a system call, also when it has ended.
const firstArgument = "di"

// olderCallNames are system calls that only older processors have.
var olderCallNames = map[int]string{
	unix.SYS_ACCESS: "access", unix.SYS_ALARM: "alarm", unix.SYS_ARCH_PRCTL: "arch_prctl", unix.SYS_CHMOD: "chmod",
	unix.SYS_CHOWN: "chown", unix.SYS_CREAT: "creat", unix.SYS_DUP2: "dup2", unix.SYS_EPOLL_CREATE: "epoll_create",
	unix.SYS_EPOLL_WAIT: "epoll_wait", unix.SYS_EVENTFD: "eventfd", unix.SYS_FORK: "fork",
	unix.SYS_FUTIMESAT: "futimesat", unix.SYS_GETDENTS: "getdents", unix.SYS_GETPGRP: "getpgrp",
	unix.SYS_INOTIFY_INIT: "inotify_init", unix.SYS_LCHOWN: "lchown", unix.SYS_LINK: "link", unix.SYS_LSTAT: "lstat",
	unix.SYS_MKDIR: "mkdir", unix.SYS_MKNOD: "mknod", unix.SYS_OPEN: "open", unix.SYS_PAUSE: "pause",
	unix.SYS_PIPE: "pipe", unix.SYS_POLL: "poll", unix.SYS_READLINK: "readlink", unix.SYS_RENAME: "rename",
	unix.SYS_RMDIR: "rmdir", unix.SYS_SELECT: "select", unix.SYS_SIGNALFD: "signalfd", unix.SYS_STAT: "stat",
	unix.SYS_SYMLINK: "symlink", unix.SYS_TIME: "time", unix.SYS_UNLINK: "unlink", unix.SYS_UTIME: "utime",
	unix.SYS_UTIMES: "utimes", unix.SYS_VFORK: "vfork",
}
