//! A filter of system calls, for evcxr and all that it starts.
//!
//! It takes away what no cell of a lesson needs and what reaches beyond a sandbox: connections, other processes'
//! memory, namespaces and mounts, modules, keys, and ways around the filter.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use libc::c_long;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen as Len, SeccompCmpOp as Op, SeccompCondition, SeccompFilter,
    SeccompRule,
};

/// Refused whatever their arguments are.
const REFUSED: &[c_long] = &[
    // Other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    // Sockets: the kernel binds and accepts those that it answers on.
    libc::SYS_connect,
    // Calls that a filter does not see.
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    // Namespaces, mounts, and files past their paths.
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_name_to_handle_at,
    libc::SYS_open_by_handle_at,
    libc::SYS_quotactl,
    // Landlock does not look at owners, modes and attributes.
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chmod,
    libc::SYS_fchmodat,
    libc::SYS_fchmodat2,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lchown,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
    // The system.
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_syslog,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
];

/// Flags of `clone` that make a namespace.
const NAMESPACES: [i32; 7] = [
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWCGROUP,
];

/// On x86-64, calls with this bit are the same calls once more.
#[cfg(target_arch = "x86_64")]
const X32: c_long = 0x4000_0000;

/// The filter's programs, to be applied in this order.
pub fn programs() -> Result<Vec<BpfProgram>> {
    let mut rules: BTreeMap<c_long, Vec<SeccompRule>> = REFUSED.iter().map(|call| (*call, Vec::new())).collect();
    let rule = |conditions: Vec<(u8, Len, Op, u64)>| {
        let conditions =
            conditions.into_iter().map(|(argument, len, op, value)| SeccompCondition::new(argument, len, op, value));
        SeccompRule::new(conditions.collect::<Result<_, _>>()?)
    };
    // Streams on which the kernel answers, and nothing that is sent to an address.
    let datagrams = || rule(vec![(1, Len::Dword, Op::MaskedEq(0xf), libc::SOCK_DGRAM as u64)]);
    let families = [libc::AF_UNIX, libc::AF_INET].map(|family| (0, Len::Dword, Op::Ne, family as u64));
    let other_family = rule(families.to_vec())?;
    rules.insert(libc::SYS_socket, vec![other_family, datagrams()?]);
    rules.insert(libc::SYS_socketpair, vec![datagrams()?]);
    // This flag lets a send open a connection of its own.
    let fast = libc::MSG_FASTOPEN as u64;
    for (call, flags) in [(libc::SYS_sendto, 3), (libc::SYS_sendmsg, 2), (libc::SYS_sendmmsg, 3)] {
        rules.insert(call, vec![rule(vec![(flags, Len::Dword, Op::MaskedEq(fast), fast)])?]);
    }
    // Characters typed into somebody's terminal.
    rules.insert(libc::SYS_ioctl, vec![rule(vec![(1, Len::Dword, Op::Eq, libc::TIOCSTI)])?]);
    let clones = NAMESPACES.iter().map(|flag| {
        let flag = *flag as u64;
        rule(vec![(0, Len::Qword, Op::MaskedEq(flag), flag)])
    });
    rules.insert(libc::SYS_clone, clones.collect::<Result<_, _>>()?);
    // Its flags lie in memory, which a filter cannot read. On this error, C libraries call `clone` instead.
    let clone3 = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
    Ok(vec![program(rules, libc::EPERM)?, program(clone3, libc::ENOSYS)?])
}

fn program(mut rules: BTreeMap<c_long, Vec<SeccompRule>>, answer: i32) -> Result<BpfProgram> {
    #[cfg(target_arch = "x86_64")]
    rules.extend(rules.clone().into_iter().map(|(call, rules)| (call | X32, rules)));
    let arch = std::env::consts::ARCH.try_into().context("no system calls are known for this processor")?;
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, SeccompAction::Errno(answer as u32), arch)?;
    filter.try_into().context("cannot make the filter of system calls")
}

/// Applies the filter to this thread and all that it starts, for good. Allocates nothing.
pub fn apply(programs: &[BpfProgram]) -> std::io::Result<()> {
    programs.iter().try_for_each(|program| {
        seccompiler::apply_filter(program).map_err(|_| std::io::Error::from_raw_os_error(libc::EINVAL))
    })
}
