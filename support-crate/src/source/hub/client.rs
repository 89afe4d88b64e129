//! One request by HTTP, whose answer comes in pieces.
//!
//! ureq waits for the network as long as it takes, so it does that on a thread of its own, and whoever waits for a
//! piece may give up at any moment: the thread then ends with the next piece, or with its own timeouts.

use std::io::{Read, copy, sink};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use ureq::http::header::{AUTHORIZATION, LOCATION, RANGE};
use ureq::http::{HeaderValue, Method, Request, Response, Uri};
use ureq::tls::{RootCerts, TlsConfig};
use ureq::{Agent, Body};

use super::fault::{Fault, Refusal};
use super::proxy::Routes;
use super::settings::Settings;

/// Bytes that are read at once, and how many such pieces may wait for their reader.
const PIECE: usize = 64 * 1024;
const AHEAD: usize = 4;

/// As many as browsers follow, and more than any Hub has.
const MAX_REDIRECTS: usize = 10;

/// A redirect's text up to this length is read, so that its connection can be used again.
const REDIRECT_TEXT: u64 = 16 * 1024;

/// What an answer consists of.
pub(super) enum Piece {
    /// The beginning of a successful response.
    Start {
        /// Whether it holds the requested range rather than everything.
        partial: bool,
    },
    /// Some of its bytes.
    Bytes(Vec<u8>),
    /// There is no more.
    End,
}

/// What makes requests in the name of the token's owner.
#[derive(Clone)]
pub(super) struct Client {
    routes: Arc<Routes>,
    token: Option<HeaderValue>,
}

impl Client {
    pub fn new(settings: &Settings) -> Self {
        // The reader gives up first; these end the thread.
        let limit = Some(2 * settings.timeout);
        let config = |proxy| {
            let config = Agent::config_builder()
                .user_agent(concat!("quantlab/", env!("CARGO_PKG_VERSION")))
                .http_status_as_error(false)
                .max_redirects(0)
                // The system's certificates, which include those of companies.
                .tls_config(TlsConfig::builder().root_certs(RootCerts::PlatformVerifier).build())
                .timeout_resolve(limit)
                .timeout_connect(limit)
                .timeout_per_read(limit)
                .timeout_per_write(limit);
            config.proxy(proxy).build()
        };
        let token = settings.token.as_ref().and_then(|token| HeaderValue::try_from(format!("Bearer {token}")).ok());
        Self { routes: Arc::new(Routes::new(settings.proxies.clone(), config)), token }
    }

    /// Asks for what is at an address, or for its bytes from the first of `range` to the second. The last piece is the
    /// end or a fault.
    pub fn ask(
        &self,
        method: Method,
        address: &str,
        range: Option<(u64, u64)>,
    ) -> Result<Receiver<Result<Piece, Fault>>, Fault> {
        let address = address.parse().map_err(|_| Fault::Impossible(format!("{address} is not a valid address")))?;
        let (sender, receiver) = sync_channel(AHEAD);
        let client = self.clone();
        let run = move || {
            if let Err(fault) = client.answer(&method, address, range, &sender) {
                // Here and below, the receiver may already be gone.
                let _ = sender.send(Err(fault));
            }
        };
        thread::Builder::new()
            .name("hub".to_owned())
            .spawn(run)
            .map_err(|cause| Fault::Impossible(format!("cannot start a thread: {cause}")))?;
        Ok(receiver)
    }

    fn answer(
        &self,
        method: &Method,
        address: Uri,
        range: Option<(u64, u64)>,
        pieces: &SyncSender<Result<Piece, Fault>>,
    ) -> Result<(), Fault> {
        let response = self.follow(method, address, range)?;
        let mut next = Piece::Start { partial: response.status() == 206 };
        let mut body = response.into_body().into_reader();
        while pieces.send(Ok(next)).is_ok() {
            let mut bytes = vec![0; PIECE];
            let len = body.read(&mut bytes).map_err(|cause| Fault::from(ureq::Error::from(cause)))?;
            if len == 0 {
                let _ = pieces.send(Ok(Piece::End));
                break;
            }
            bytes.truncate(len);
            next = Piece::Bytes(bytes);
        }
        Ok(())
    }

    /// The successful response at the end of all redirects. The token goes only where the first request goes.
    fn follow(&self, method: &Method, address: Uri, range: Option<(u64, u64)>) -> Result<Response<Body>, Fault> {
        let mut at = address.clone();
        for _ in 0..=MAX_REDIRECTS {
            let mut request = Request::builder().method(method).uri(&at);
            if let Some((first, last)) = range {
                request = request.header(RANGE, format!("bytes={first}-{last}"));
            }
            if let Some(token) = &self.token
                && (at.scheme(), at.authority()) == (address.scheme(), address.authority())
            {
                request = request.header(AUTHORIZATION, token);
            }
            let request = request.body(()).map_err(ureq::Error::from)?;
            let response = self.routes.agent(&at).run(request)?;
            if response.status().is_success() {
                return Ok(response);
            }
            let location = response.headers().get(LOCATION).filter(|_| response.status().is_redirection());
            let Some(location) = location else { return Err(Fault::Refused(Refusal::of(&response, &at))) };
            let next = location.to_str().ok().and_then(|location| joined(&at, location));
            at = next.ok_or_else(|| Fault::Impossible(format!("it is redirected to {location:?}")))?;
            let _ = copy(&mut response.into_body().into_reader().take(REDIRECT_TEXT), &mut sink());
        }
        Err(Fault::Impossible(format!("it is redirected more than {MAX_REDIRECTS} times")))
    }
}

/// Where a redirect leads, which may leave out what stays the same.
fn joined(from: &Uri, location: &str) -> Option<Uri> {
    let (scheme, authority) = (from.scheme_str()?, from.authority()?.as_str());
    let host = authority.rsplit('@').next()?;
    let whole = if location.parse::<Uri>().is_ok_and(|uri| uri.scheme().is_some()) {
        location.to_owned()
    } else if location.starts_with("//") {
        format!("{scheme}:{location}")
    } else if location.starts_with('/') {
        format!("{scheme}://{host}{location}")
    } else {
        let folder = from.path().rsplit_once('/')?.0;
        format!("{scheme}://{host}{folder}/{location}")
    };
    whole.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirects_may_leave_out_what_stays_the_same() {
        let from: Uri = "https://hub.co/a/b?c=d".parse().unwrap();
        for (location, expected) in [
            ("http://cdn.co/x?s=/1", "http://cdn.co/x?s=/1"),
            ("//cdn.co/x", "https://cdn.co/x"),
            ("/x?to=http://cdn.co/", "https://hub.co/x?to=http://cdn.co/"),
            ("x", "https://hub.co/a/x"),
        ] {
            assert_eq!(joined(&from, location).unwrap(), expected);
        }
        assert_eq!(joined(&from, "/a b"), None);
    }
}
