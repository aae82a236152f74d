package timeline

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// A rule gives a class to the kernel functions that begin with one of some prefixes.
type rule struct {
	class    Class
	prefixes []string
}

// functionRules are tried in this order on all functions of a stack: what is done comes before how it waits.
// A lock or a grace period is used by everything, so none is named here.
var functionRules = []rule{
	{Groups, []string{"cgroup_", "cgroup1_", "__cgroup", "css_", "cpuset_", "cpu_cgroup_", "mem_cgroup_css"}},
	{Network, []string{
		"rtnl_", "rtnetlink_", "netlink_", "nf_", "nft_", "ipt_", "xt_", "do_ipt_", "copy_net_ns", "setup_net", "cleanup_net",
		"net_ns", "register_netdev", "unregister_netdev", "dev_change_", "veth_", "br_", "tcp_", "inet_", "udp_",
	}},
	{Names, []string{
		"create_new_namespaces", "copy_namespaces", "copy_mnt_ns", "copy_pid_ns", "copy_ipcs", "copy_utsname",
		"create_user_ns", "switch_task_namespaces", "free_nsproxy", "unshare_nsproxy", "ksys_unshare",
		"put_mnt_ns", "pivot_root",
	}},
	{Security, []string{"seccomp_", "do_seccomp", "security_", "apparmor_", "selinux_", "key_", "bpf_prog_load"}},
	{Storage, []string{
		"ext4_", "jbd2_", "xfs_", "btrfs_", "ovl_", "fuse_", "nfs_", "loop_", "path_umount", "do_umount", "namespace_unlock",
		"path_mount", "do_mount", "do_new_mount", "attach_recursive_mnt", "submit_bio", "blk_", "folio_wait", "wait_on_page",
		"wait_on_buffer", "__wait_on_buffer", "vfs_fsync", "do_fsync", "sync_inodes", "sync_filesystem", "iterate_supers",
		"file_write_and_wait", "filemap_", "iomap_", "deactivate_super", "deactivate_locked_super", "read_pages",
		"page_cache_", "vfs_mkdir", "vfs_rmdir", "vfs_unlink", "vfs_rename", "lookup_", "open_last_lookups",
		"flock_", "posix_lock_",
	}},
	{Program, []string{"bprm_execve", "begin_new_exec", "de_thread", "load_elf_", "exec_mmap"}},
	{Processes, []string{
		"do_wait", "kernel_wait", "wait_for_vfork_done", "kernel_clone", "do_exit", "do_group_exit", "exit_mm",
		"exit_notify", "zap_pid_ns", "ptrace_", "do_sigtimedwait", "sigsuspend", "pidfd_",
	}},
	{Messages, []string{
		"pipe_", "anon_pipe_", "fifo_", "wait_for_partner", "unix_", "skb_wait", "__skb_wait", "sk_wait", "sock_", "ep_poll",
		"do_epoll", "futex_", "do_futex", "__futex", "do_poll", "do_select", "do_sys_poll", "core_sys_select", "poll_",
		"eventfd_", "n_tty_", "tty_", "signalfd_", "inotify_", "io_cqring_wait",
	}},
	{Timers, []string{"hrtimer_nanosleep", "do_nanosleep", "common_nsleep", "timerfd_", "msleep", "usleep_"}},
	{Memory, []string{
		"handle_mm_fault", "do_user_addr_fault", "exc_page_fault", "do_mem_abort", "vm_mmap", "__vm_munmap",
		"do_mmap", "do_munmap", "mmap_", "do_swap_page", "try_to_free", "alloc_pages", "__alloc_pages",
	}},
}

// classOfStack is the class of what a thread does in some kernel functions; Other if no rule knows.
func classOfStack(stack []string) Class {
	for _, r := range functionRules {
		if slices.ContainsFunc(stack, r.fits) {
			return r.class
		}
	}
	return Other
}

func (r *rule) fits(function string) bool {
	return slices.ContainsFunc(r.prefixes, func(p string) bool { return strings.HasPrefix(function, p) })
}

// classesOfCalls has the system calls that are for one thing. What reads and writes anything, such as read,
// is in none. Those on sockets are for the network if the socket is: see networkFamilies.
var classesOfCalls = byCall(map[Class]string{
	Names: "unshare setns pivot_root sethostname setdomainname chroot",
	Security: "seccomp capset capget prctl keyctl add_key request_key setuid setgid setresuid setresgid setgroups bpf " +
		"landlock_create_ruleset landlock_add_rule landlock_restrict_self setfsuid setfsgid",
	Storage: "mount umount2 fsopen fsconfig fsmount fspick move_mount open_tree mount_setattr statfs fstatfs fsync " +
		"fdatasync sync syncfs sync_file_range open openat openat2 creat mkdir mkdirat rmdir unlink unlinkat rename " +
		"renameat renameat2 link linkat symlink symlinkat readlink readlinkat stat lstat fstat newfstatat fstatat statx " +
		"access faccessat faccessat2 getdents getdents64 chmod fchmod fchmodat chown fchown fchownat lchown mknod mknodat " +
		"truncate ftruncate fallocate flock name_to_handle_at getxattr lgetxattr fgetxattr setxattr fsetxattr " +
		"listxattr utimensat copy_file_range sendfile pread64 pwrite64 preadv pwritev lseek chdir fchdir getcwd",
	Program: "execve execveat",
	Processes: "clone clone3 fork vfork wait4 waitid exit exit_group kill tkill tgkill rt_sigaction rt_sigprocmask " +
		"rt_sigtimedwait pidfd_open pidfd_send_signal pidfd_getfd setsid setpgid set_tid_address sched_setaffinity " +
		"sched_getaffinity prlimit64 setrlimit getrlimit ptrace rt_sigreturn set_robust_list sched_yield",
	Messages: "pipe pipe2 epoll_wait epoll_pwait epoll_pwait2 epoll_ctl epoll_create1 poll ppoll select pselect6 futex " +
		"sendmsg recvmsg sendto recvfrom sendmmsg recvmmsg accept accept4 connect bind listen socket socketpair shutdown " +
		"getsockopt setsockopt getsockname getpeername eventfd2 eventfd signalfd4 splice tee dup dup2 dup3 close close_range",
	Memory: "mmap munmap mprotect mremap madvise brk mlock munlock memfd_create mincore membarrier",
	Timers: "nanosleep clock_nanosleep timer_create timer_settime timerfd_create timerfd_settime setitimer",
})

// byCall turns lists of system calls around.
func byCall(lists map[Class]string) map[string]Class {
	all := map[string]Class{}
	for class, names := range lists {
		for name := range strings.FieldsSeq(names) {
			all[name] = class
		}
	}
	return all
}

// networkFamilies are the families of sockets that are for the network, by their numbers in Linux: IPv4, IPv6, netlink
// and packets. All others are for messages between processes.
var networkFamilies = []int{2, 10, 16, 17}

// class is the class of a system call; Other if no rule knows.
func (c *call) class() Class {
	if slices.Contains(networkFamilies, c.family) {
		return Network
	}
	return cmp.Or(classesOfCalls[c.name], Other)
}

// stack returns the functions of a stack, the innermost first, without those that only put the thread to
// sleep; nil if there are none.
func (h *history) stack(i int) []string {
	if i < 0 || i >= len(h.stacks) {
		return nil
	}
	all := h.stacks[i]
	for len(all) > 0 && onlySleeps(all[0]) {
		all = all[1:]
	}
	return all
}

// sleepPrefixes are the beginnings of functions that say that a thread sleeps, and not for what.
var sleepPrefixes = []string{
	"__schedule", "schedule", "preempt_schedule", "io_schedule", "wait_for_completion", "__wait_for_common",
	"do_wait_for_common", "rwsem_down_", "rwsem_read_slowpath", "down_read", "down_write", "__down_", "down_interruptible",
	"mutex_lock", "__mutex_lock", "bit_wait", "__wait_on_bit", "out_of_line_wait_on_bit", "swait_", "do_wait_intr",
	"wait_woken", "poll_schedule_timeout", "prepare_to_wait", "autoremove_wake", "rt_mutex_", "__rt_mutex", "rt_spin_",
	"cond_resched", "__cond_resched", "percpu_rwsem_wait", "finish_task_switch", "__wait_event", "wait_rcu_gp",
	"__wait_rcu_gp",
}

func onlySleeps(function string) bool {
	return slices.ContainsFunc(sleepPrefixes, func(p string) bool { return strings.HasPrefix(function, p) })
}

// interruptRules are how the functions begin with which the kernel enters an interrupt; others end with
// "_interrupt". A softirq that a thread runs by itself, as when it sends to loopback, is its own work.
var interruptRules = rule{prefixes: []string{
	"sysvec_", "asm_sysvec_", "__sysvec_", "irq_exit_rcu", "__irq_exit_rcu", "handle_irq_event", "generic_handle_irq",
	"gic_handle_irq", "el1h_64_irq", "el0t_64_irq", "do_IRQ",
}}

// interrupts reports whether a thread was woken by an interrupt, and not by the thread that it interrupted.
// Asleep is the stack in which it left the CPU: where the other one is not known, who sleeps for a time is
// woken by its timer.
func (h *history) interrupts(w wake, asleep int) bool {
	if w.stack < 0 || w.stack >= len(h.stacks) {
		return classOfStack(h.stack(asleep)) == Timers
	}
	return slices.ContainsFunc(h.stacks[w.stack], func(function string) bool {
		return strings.HasSuffix(function, "_interrupt") || interruptRules.fits(function)
	})
}

// timerRules are how the functions begin that run what a timer has started.
var timerRules = rule{prefixes: []string{
	"hrtimer_", "__hrtimer_", "__run_timer", "run_timer", "call_timer_fn", "process_timeout", "expire_timers",
}}

// byTimer reports whether an interrupt that woke a thread was that of a timer.
func (h *history) byTimer(w wake) bool {
	return w.stack >= 0 && w.stack < len(h.stacks) && slices.ContainsFunc(h.stacks[w.stack], timerRules.fits)
}

// waited says what a thread waited for, from the stack in which it left the CPU and from who woke it.
func (h *history) waited(t *thread, since time.Duration, stack int, by wake) (Class, string) {
	functions := h.stack(stack)
	c, inCall := t.callAt(since)
	class, reason := classOfStack(functions), ""
	switch {
	case len(functions) > 0:
		reason = functions[0]
	case inCall:
		reason = c.name
	}
	if class == Other && inCall {
		class = c.class()
	}
	if inCall && t.movesGroup(c) {
		class = Groups
	}
	switch interrupted := h.interrupts(by, stack); {
	case interrupted && h.byTimer(by) && (class == Messages || class == Other):
		class = Timers
	case interrupted && class == Other:
		class = Devices
	case !interrupted && by.name != "" && !strings.HasPrefix(by.name, "swapper/"):
		reason = strings.TrimPrefix(reason+", woken by "+by.name, ", ")
	}
	return class, reason
}
