//! Passes bytes between sockets that were made outside and the kernel's ports inside.
//!
//! ZeroMQ says the same over both.

use std::io;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpStream};
use std::os::fd::{FromRawFd, RawFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

/// Passes on whatever connects to the listening socket `from`, in threads of its own, until the process ends.
pub fn serve(from: RawFd, port: u16) {
    // SAFETY: the descriptor was opened for this process by the one that started it; nothing else here owns it.
    let listener = unsafe { UnixListener::from_raw_fd(from) };
    std::thread::spawn(move || {
        for outside in listener.incoming() {
            let Ok(outside) = outside else { return };
            std::thread::spawn(move || join(&outside, port));
        }
    });
}

fn join(outside: &UnixStream, port: u16) {
    let inside = &connect(port);
    // Messages are answered one by one: none must wait for more to send.
    let _: io::Result<()> = inside.set_nodelay(true);
    // What one side has closed is closed on the other.
    let end = || {
        let _: io::Result<()> = outside.shutdown(Shutdown::Both);
        let _: io::Result<()> = inside.shutdown(Shutdown::Both);
    };
    std::thread::scope(|scope| {
        scope.spawn(move || {
            pass(inside, outside);
            end();
        });
        pass(outside, inside);
        end();
    });
}

/// The kernel listens once it has loaded the library, which can take a while.
fn connect(port: u16) -> TcpStream {
    loop {
        match TcpStream::connect((Ipv4Addr::LOCALHOST, port)) {
            Ok(stream) => return stream,
            Err(_) => std::thread::sleep(Duration::from_millis(50)),
        }
    }
}

fn pass(mut from: impl Read, mut to: impl Write) {
    let _: io::Result<u64> = io::copy(&mut from, &mut to);
}
