//! Dask, as a person runs it.

use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

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

/// A scheduler on this port, or on one that it chooses instead of 0, and its address; `folder` is for the file in which it
/// says so.
pub fn scheduler(folder: &Path, port: &str) -> (Dask, String) {
    let file = folder.join("scheduler.json");
    // That of one before.
    let _ = std::fs::remove_file(&file);
    let options = ["scheduler", "--host=127.0.0.1", "--port", port, "--no-dashboard", "--scheduler-file"];
    let dask = Dask::run(&[&options[..], &[file.to_str().unwrap()]].concat());
    let end = Instant::now() + Duration::from_secs(120);
    loop {
        // Until all of it is written, it is no JSON.
        let said = std::fs::read(&file).ok().and_then(|bytes| serde_json::from_slice::<serde_json::Value>(&bytes).ok());
        if let Some(address) = said.as_ref().and_then(|said| said["address"].as_str()) {
            return (dask, address.to_owned());
        }
        assert!(Instant::now() < end, "the scheduler does not say where it is");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Waits until so many workers have come.
pub fn wait_for_workers(home: &Path, address: &str, count: usize) {
    let all = "import sys; from distributed import Client; Client(sys.argv[1]).wait_for_workers(int(sys.argv[2]), timeout=120)";
    let mut here = Command::new(home.join("dask/python/bin/python"));
    assert!(here.args(["-c", all, address, &count.to_string()]).status().unwrap().success());
}
