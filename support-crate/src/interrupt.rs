//! Interrupts long-running work when whoever waits for it has had enough.
//!
//! The notebook's stop button, and Ctrl-C in `cargo lab run`, set a flag in a file that the kernel shares with its
//! cells. Long-running work keeps checking it ([`check`]) and returns an error, as it would for any other reason, so
//! that the variables of earlier cells survive. Outside a notebook there is no such file, and nothing is interrupted.

use std::fs::File;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use memmap2::{MmapOptions, MmapRaw};

use crate::error::{Error, Result};

/// The environment variable that names the file: one byte, 0 until someone interrupts. The kernel's supervisor writes
/// it.
const FILE: &str = "QUANTLAB_INTERRUPT";

/// How long a wait goes on before the flag is looked at again.
const MOMENT: Duration = Duration::from_millis(50);

static FLAG: LazyLock<Option<MmapRaw>> = LazyLock::new(|| {
    let file = File::options().read(true).write(true).open(std::env::var_os(FILE)?).ok()?;
    MmapOptions::new().len(1).map_raw(&file).ok().filter(|_| file.metadata().is_ok_and(|meta| meta.len() > 0))
});

/// Whether the cell should end. Once true, this stays true until the cell is over, so that a cell's own loop over
/// several long calls ends along with them.
fn is_requested() -> bool {
    FLAG.as_ref().is_some_and(|flag| {
        // SAFETY: the mapping is a page that lives as long as the process, readable and writable, and its file is not
        // truncated while the kernel lives; everyone on this side reads it as this one atomic byte.
        let flag = unsafe { AtomicU8::from_ptr(flag.as_mut_ptr()) };
        flag.load(Ordering::Relaxed) != 0
    })
}

/// Returns an error once the cell has been interrupted, for your own long loops. It costs about a nanosecond.
///
/// ```
/// use quantlab::interrupt;
///
/// let mut sum = 0_u64;
/// for i in 0..1000 {
///     interrupt::check()?;
///     sum += i;
/// }
/// # Ok::<(), quantlab::error::Error>(())
/// ```
///
/// # Errors
/// [`ErrorKind::Interrupted`](crate::error::ErrorKind::Interrupted).
pub fn check() -> Result<()> {
    if is_requested() { Err(Error::interrupted()) } else { Ok(()) }
}

/// Calls `ready` until it returns something or the cell is interrupted. Each call may wait for the duration it is
/// given.
pub(crate) fn until<T>(mut ready: impl FnMut(Duration) -> Option<T>) -> Result<T> {
    loop {
        check()?;
        if let Some(found) = ready(MOMENT) {
            return Ok(found);
        }
    }
}
