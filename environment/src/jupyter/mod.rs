//! The notebook kernel: how it is built, warmed, started, and cleaned up after.
//!
//! `kernel.json` names this program (`lab kernel CONNECTION_FILE`); it gives the kernel a build folder
//! of its own, cloned from the warm one, sets the environment, starts evcxr_jupyter and passes interrupts on. So the
//! kernel is the same from JupyterLab, VS Code and headless runs, whatever their environment is.

pub mod cargo;
pub mod claim;
mod crates;
pub mod evcxr;
pub mod installed;
pub mod interrupt;
pub mod launch;
pub mod links;
pub mod live;
pub mod processes;
mod signals;
pub mod sources;
pub mod spec;
pub mod warm;
