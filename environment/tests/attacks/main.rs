//! What strangers might hand in, and what must hold. Needs a finished set-up: `cargo lab test` sees to that.

mod class;
#[path = "../common/dask.rs"]
mod dask;
mod elsewhere;
mod exhaust;
mod files;
#[path = "../common/home.rs"]
mod home;
mod leftovers;
mod neighbours;
mod pages;
mod reach;
mod read_only;
