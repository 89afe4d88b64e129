//! Whether there is a network at all, found out quickly.
//!
//! An HTTP client without a network can take minutes to say so: a resolver that gets no answer, a
//! connection that nobody refuses. The next candidate should not wait for that.

use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// A network that does not answer within this time counts as absent: trying the next candidate
/// should not take longer than two seconds.
const REACH_TIMEOUT: Duration = Duration::from_millis(1500);

/// Whether a connection to the endpoint, or to the proxy in front of it, comes about in time.
pub(super) fn is_reachable(endpoint: &str) -> bool {
    let target = proxy_for(endpoint).unwrap_or_else(|| endpoint.to_owned());
    // What is no address is for the HTTP client to complain about.
    let Some((host, port)) = host_and_port(&target) else { return true };
    any_answers(move || (host, port).to_socket_addrs().map(Iterator::collect).unwrap_or_default())
}

/// Whether one of the addresses answers in time. All are tried at once: a host often has an IPv6 address that leads
/// nowhere from here, and an IPv4 address that works.
fn any_answers(look_up: impl FnOnce() -> Vec<SocketAddr> + Send + 'static) -> bool {
    let (answered, answers) = mpsc::channel();
    thread::spawn(move || {
        for address in look_up() {
            let answered = answered.clone();
            thread::spawn(move || {
                if TcpStream::connect_timeout(&address, REACH_TIMEOUT).is_ok() {
                    // Nobody listens any more once another address has answered, or none did in time.
                    let _ = answered.send(());
                }
            });
        }
    });
    answers.recv_timeout(REACH_TIMEOUT).is_ok()
}

/// The proxy that the environment names for this address, as HTTP clients read it.
fn proxy_for(endpoint: &str) -> Option<String> {
    let variable = |name: &str| {
        [name.to_ascii_lowercase(), name.to_owned()]
            .iter()
            .find_map(|name| std::env::var(name).ok())
            .filter(|value| !value.is_empty())
    };
    let (host, _) = host_and_port(endpoint)?;
    let exempt = variable("NO_PROXY").is_some_and(|list| {
        list.split(',')
            .map(|entry| entry.trim().trim_start_matches('.'))
            .any(|entry| entry == "*" || (!entry.is_empty() && (host == entry || host.ends_with(&format!(".{entry}")))))
    });
    if exempt {
        return None;
    }
    let scheme_proxy = if endpoint.starts_with("https:") { "HTTPS_PROXY" } else { "HTTP_PROXY" };
    variable(scheme_proxy).or_else(|| variable("ALL_PROXY"))
}

/// Host and port of an address such as `https://user@host:8080/path`.
fn host_and_port(address: &str) -> Option<(String, u16)> {
    let (scheme, rest) = address.split_once("://").unwrap_or(("http", address));
    let authority = rest.split(['/', '?', '#']).next()?;
    let authority = authority.rsplit('@').next()?;
    let default_port = if scheme == "https" { 443 } else { 80 };
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, port.parse().ok()?),
        _ => (authority, default_port),
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    (!host.is_empty()).then(|| (host.to_owned(), port))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::time::Instant;

    use super::*;

    /// 192.0.2.0/24 is reserved for documentation (RFC 5737): nothing answers there.
    const DEAD: &str = "192.0.2.1:9";

    #[test]
    fn addresses_are_taken_apart() {
        let host = |address| host_and_port(address).unwrap();
        assert_eq!(host("https://huggingface.co"), ("huggingface.co".to_owned(), 443));
        assert_eq!(host("http://me:secret@proxy.local:3128/x?y"), ("proxy.local".to_owned(), 3128));
        assert_eq!(host("http://[::1]:80/"), ("::1".to_owned(), 80));
        assert_eq!(host("proxy:8080"), ("proxy".to_owned(), 8080));
        assert_eq!(host_and_port("http://"), None);
    }

    #[test]
    fn an_address_that_does_not_answer_is_given_up_in_time() {
        let start = Instant::now();
        assert!(!any_answers(|| vec![DEAD.parse().unwrap()]));
        assert!(!any_answers(Vec::new));
        assert!(start.elapsed() < Duration::from_secs(2));
    }

    #[test]
    fn one_live_address_behind_dead_ones_is_enough() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let live = listener.local_addr().unwrap();
        assert!(any_answers(move || vec![DEAD.parse().unwrap(), "192.0.2.2:9".parse().unwrap(), live]));
    }
}
