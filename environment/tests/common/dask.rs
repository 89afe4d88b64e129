//! Dask, as a person runs it.

use std::net::TcpListener;
use std::process::{Child, Command};

/// A program of Dask's, which ends with the test.
pub struct Dask(pub Child);

impl Dask {
    /// `lab dask ARGS`.
    pub fn run(args: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lab"));
        Self(command.arg("dask").args(args).spawn().unwrap())
    }
}

impl Drop for Dask {
    fn drop(&mut self) {
        // Asked, it ends its workers.
        let _: std::io::Result<_> = Command::new("kill").arg(self.0.id().to_string()).status();
        let _: std::io::Result<_> = self.0.wait();
    }
}

/// A port that is free now; while this is so, nobody else is given it.
pub fn free_port() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string()
}
