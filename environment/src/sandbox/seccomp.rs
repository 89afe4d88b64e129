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

/// Of Linux 6.13 to 6.17, by the number that new calls have on all processors.
const SETXATTRAT: c_long = 463;
const REMOVEXATTRAT: c_long = 466;
const OPEN_TREE_ATTR: c_long = 467;
const FILE_SETATTR: c_long = 469;

/// Refused whatever their arguments are.
const REFUSED: &[c_long] = &[
    // Other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    // Memory that no limit counts, or that stays when all processes have ended.
    libc::SYS_memfd_create,
    libc::SYS_memfd_secret,
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_semget,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_semctl,
    libc::SYS_msgget,
    libc::SYS_msgsnd,
    libc::SYS_msgrcv,
    libc::SYS_msgctl,
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
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
    OPEN_TREE_ATTR,
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
    SETXATTRAT,
    REMOVEXATTRAT,
    FILE_SETATTR,
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

/// Answered as if they had worked, which they did not: Landlock does not look at these either, and what copies files or
/// builds crates sets modes and times without need.
const WITHOUT_EFFECT: &[c_long] = &[
    libc::SYS_fchmod,
    libc::SYS_utimensat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utime,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utimes,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_futimesat,
];

/// Calls that reach any process of the user, to which Landlock is blind: an argument, and what it is where they are about
/// the process that calls. Two first say that they name a process, and not a group or a user.
const OF_THE_CALLER: [(c_long, u8, u64); 9] = [
    (libc::SYS_prlimit64, 0, 0),
    (libc::SYS_sched_setaffinity, 0, 0),
    (libc::SYS_sched_setattr, 0, 0),
    (libc::SYS_sched_setparam, 0, 0),
    (libc::SYS_sched_setscheduler, 0, 0),
    (libc::SYS_setpriority, 0, libc::PRIO_PROCESS as u64),
    (libc::SYS_setpriority, 1, 0),
    (libc::SYS_ioprio_set, 0, 1),
    (libc::SYS_ioprio_set, 1, 0),
];

/// Of files: flags, flags once more, and a seal.
const FS_IOC_SETFLAGS: u64 = 0x4008_6602;
const FS_IOC_FSSETXATTR: u64 = 0x401c_5820;
const FS_IOC_ENABLE_VERITY: u64 = 0x4080_6685;

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

/// On x86-64, calls with this bit are the same calls once more, but for some that have numbers of their own.
#[cfg(target_arch = "x86_64")]
const X32: c_long = 0x4000_0000;
#[cfg(target_arch = "x86_64")]
const X32_ALONE: std::ops::RangeInclusive<c_long> = 512..=547;

/// The filter's programs, to be applied in this order.
pub fn programs() -> Result<Vec<BpfProgram>> {
    let mut rules: BTreeMap<c_long, Vec<SeccompRule>> = REFUSED.iter().map(|call| (*call, Vec::new())).collect();
    let rule = |conditions: Vec<(u8, Len, Op, u64)>| {
        let conditions =
            conditions.into_iter().map(|(argument, len, op, value)| SeccompCondition::new(argument, len, op, value));
        SeccompRule::new(conditions.collect::<Result<_, _>>()?)
    };
    // Streams on which the kernel answers, and nothing that is sent to an address; of TCP, none that Landlock takes for
    // something else.
    let of_type = |kind: i32| rule(vec![(1, Len::Dword, Op::MaskedEq(0xf), kind as u64)]);
    let no_streams = (0..16).filter(|kind| *kind != libc::SOCK_STREAM);
    let families = [libc::AF_UNIX, libc::AF_INET].map(|family| (0, Len::Dword, Op::Ne, family as u64));
    let protocols = [0, libc::IPPROTO_TCP].map(|protocol| (2, Len::Dword, Op::Ne, protocol as u64));
    let mut sockets = vec![rule(families.to_vec())?, rule(protocols.to_vec())?];
    for kind in no_streams {
        sockets.push(of_type(kind)?);
    }
    rules.insert(libc::SYS_socket, sockets);
    rules.insert(libc::SYS_socketpair, vec![of_type(libc::SOCK_DGRAM)?]);
    for (call, argument, own) in OF_THE_CALLER {
        rules.entry(call).or_default().push(rule(vec![(argument, Len::Dword, Op::Ne, own)])?);
    }
    // This flag lets a send open a connection of its own.
    let fast = libc::MSG_FASTOPEN as u64;
    for (call, flags) in [(libc::SYS_sendto, 3), (libc::SYS_sendmsg, 2), (libc::SYS_sendmmsg, 3)] {
        rules.insert(call, vec![rule(vec![(flags, Len::Dword, Op::MaskedEq(fast), fast)])?]);
    }
    // Characters typed into somebody's terminal, and attributes of files.
    let requests = [libc::TIOCSTI, FS_IOC_SETFLAGS, FS_IOC_FSSETXATTR, FS_IOC_ENABLE_VERITY];
    let of_request = |request| rule(vec![(1, Len::Dword, Op::Eq, request)]);
    rules.insert(libc::SYS_ioctl, requests.into_iter().map(of_request).collect::<Result<_, _>>()?);
    let clones = NAMESPACES.iter().map(|flag| {
        let flag = *flag as u64;
        rule(vec![(0, Len::Qword, Op::MaskedEq(flag), flag)])
    });
    rules.insert(libc::SYS_clone, clones.collect::<Result<_, _>>()?);
    // No program that lessons need has any of these.
    #[cfg(target_arch = "x86_64")]
    rules.extend(X32_ALONE.map(|call| (call, Vec::new())));
    // Its flags lie in memory, which a filter cannot read. On this error, C libraries call `clone` instead.
    let clone3 = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
    let without_effect = WITHOUT_EFFECT.iter().map(|call| (*call, Vec::new())).collect();
    Ok(vec![program(rules, libc::EPERM)?, program(clone3, libc::ENOSYS)?, program(without_effect, 0)?])
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
