//! The signals that a kernel's supervisor handles.

use std::io::{self, PipeReader, Read};
use std::os::fd::{AsRawFd, IntoRawFd};
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};

use super::processes::end_with_parent;

/// Where the handler notes signals.
static NOTES: AtomicI32 = AtomicI32::new(-1);

extern "C" fn note(signal: libc::c_int) {
    let byte = signal as u8;
    // SAFETY: write may be called at any time, and gets a byte that lives. A full pipe has enough in it.
    unsafe { libc::write(NOTES.load(Ordering::Relaxed), std::ptr::from_ref(&byte).cast(), 1) };
}

/// Signals in the order of their arrival.
pub struct Signals(PipeReader);

impl Signals {
    /// Makes this process note signals from now on, instead of ending.
    pub fn heed() -> Result<Self> {
        let (notes, pen) = io::pipe().context("cannot create a pipe")?;
        NOTES.store(pen.into_raw_fd(), Ordering::Relaxed);
        for signal in [libc::SIGINT, libc::SIGCHLD, libc::SIGTERM, libc::SIGHUP] {
            // SAFETY: the handler does what handlers may do; programs that this one starts do not inherit it.
            unsafe { libc::signal(signal, note as *const () as libc::sighandler_t) };
        }
        Ok(Self(notes))
    }

    /// The next signal, waiting for it at most this long, or for ever.
    pub fn next(&mut self, limit: Option<Duration>) -> Result<Option<libc::c_int>> {
        let limit = limit.map_or(-1, |limit| limit.as_millis() as libc::c_int);
        let mut notes = libc::pollfd { fd: self.0.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: poll gets one descriptor, in a structure that lives.
        if unsafe { libc::poll(&mut notes, 1, limit) } < 1 {
            return Ok(None);
        }
        let mut signal = [0];
        self.0.read_exact(&mut signal).context("cannot read which signals arrived")?;
        Ok(Some(libc::c_int::from(signal[0])))
    }
}

/// For a process between fork and exec: it and all that it starts ignore SIGINT, and it ends with the one that started it.
pub fn leave_interrupts_to_parent() -> io::Result<()> {
    // SAFETY: it may be called between fork and exec, and gets numbers only.
    unsafe { libc::signal(libc::SIGINT, libc::SIG_IGN) };
    end_with_parent();
    Ok(())
}
