//! `cargo lab clean`: lists what set-up made, then removes it.

use std::fs;
use std::io::IsTerminal;

use anyhow::{Context, Result, bail, ensure};

use crate::home::{Home, remove_if_there};
use crate::ui::{human_size, is_confirmed};

/// What set-up and kernels make in the home; anything else there is not ours to remove.
const OURS: [&str; 38] = [
    "amx-trials",
    "bin",
    "book",
    "book.lock",
    "build",
    "cargo-home",
    "dask",
    "dask.lock",
    "downloads",
    "embedded-model",
    "emulated",
    "evcxr",
    "executed",
    "first",
    "in-use.lock",
    "installed.json",
    "kernel-start.lock",
    "kernels",
    "libtorch",
    "logs",
    "models",
    "models.lock",
    "no-jupyter",
    "peers",
    "peers.lock",
    "prebuilt",
    "python",
    "setup.lock",
    "shim",
    "stamps",
    "std-cargo-home",
    "sweep",
    "sweep.lock",
    "target",
    "tests",
    "unpacking",
    "warm-build.lock",
    "warm.lock",
];

/// Removes the home's contents; asks first unless `yes`.
pub fn clean(yes: bool) -> Result<()> {
    let home = Home::find()?;
    ensure!(home.is_ours(), "{} is shared with others, or not yours: nothing was removed", home.root().display());
    let there: Vec<&str> = OURS.into_iter().filter(|name| home.root().join(name).symlink_metadata().is_ok()).collect();
    if there.is_empty() {
        println!("Nothing to remove in {}.", home.root().display());
        return Ok(());
    }
    println!("In {} ({}):", home.root().display(), human_size(home.disk_used()));
    println!("  {}", there.join(", "));
    if !yes {
        if !std::io::stdin().is_terminal() {
            bail!("nothing was removed: cannot ask without a terminal\n  try: cargo lab clean --yes");
        }
        if !is_confirmed("Remove these? The next set-up makes them again.")? {
            println!("Nothing was removed.");
            return Ok(());
        }
    }
    // Whoever changes what is here, or grades with it, holds one of these (a notebook that is open does not); a set-up
    // takes others after its own.
    let (locks, rest): (Vec<&str>, Vec<&str>) = OURS.into_iter().partition(|name| name.ends_with(".lock"));
    let mut held = vec![home.lock("setup.lock", || eprintln!("a set-up is running; waiting for it"))?];
    for name in locks.iter().filter(|name| **name != "setup.lock") {
        held.push(home.lock(name, || eprintln!("something that uses it still runs ({name}); waiting for it"))?);
    }
    // Stamps first: whatever is left after an interruption does not count as finished.
    remove_if_there(&home.root().join("stamps"))?;
    // The locks last: whoever waits for one must not find the rest half removed.
    for name in rest.into_iter().chain(locks) {
        remove_if_there(&home.root().join(name))?;
    }
    drop(held);
    let rest = fs::read_dir(home.root()).with_context(|| format!("cannot read {}", home.root().display()))?.count();
    if rest == 0 {
        remove_if_there(home.root())?;
    } else {
        println!("Left in place: {rest} entries that are not quantlab's.");
    }
    println!("Removed.");
    Ok(())
}
