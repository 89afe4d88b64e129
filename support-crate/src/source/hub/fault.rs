//! Why a file, or the list of files, cannot be had from the Hub, and how often it is requested again.

use std::thread;
use std::time::{Duration, Instant};

use ureq::Body;
use ureq::http::header::RETRY_AFTER;
use ureq::http::{Response, Uri};

use crate::error::Error;
use crate::interrupt;

/// How many times in a row a request may fail for a reason that may pass, and the pause before the second try; each
/// further pause is twice as long.
const ATTEMPTS: u32 = 4;
const FIRST_PAUSE: Duration = Duration::from_millis(500);

#[derive(Debug)]
pub(super) enum Fault {
    /// The Hub, or something in front of it, refuses.
    Refused(Refusal),
    /// There is no connection, or it ended early.
    Broken(String),
    /// Too little came for too long.
    Slow(String),
    /// What came is not what was asked for.
    Wrong(String),
    /// A request that cannot be made.
    Impossible(String),
    /// It is not the Hub's fault: the cell was interrupted, or the disk is full.
    Here(Error),
}

/// A response with an error status. Its body is not read: it may never end.
#[derive(Debug)]
pub(super) struct Refusal {
    pub status: u16,
    pub url: String,
    /// The Hub's own word for it, and a sentence.
    pub code: Option<String>,
    pub message: Option<String>,
    /// Seconds after which the same request may succeed.
    pub retry_after: Option<u64>,
}

impl Refusal {
    pub fn of(response: &Response<Body>, address: &Uri) -> Self {
        let header = |name| response.headers().get(name)?.to_str().ok().map(str::to_owned);
        Self {
            status: response.status().as_u16(),
            url: address.to_string(),
            code: header("X-Error-Code"),
            message: header("X-Error-Message"),
            retry_after: header(RETRY_AFTER.as_str()).and_then(|text| text.trim().parse().ok()),
        }
    }
}

impl Fault {
    /// Whether the same request may succeed a moment later.
    pub fn passes(&self) -> bool {
        match self {
            Self::Refused(refusal) => refusal.status >= 500,
            Self::Broken(_) | Self::Slow(_) => true,
            Self::Wrong(_) | Self::Impossible(_) | Self::Here(_) => false,
        }
    }

    pub fn interrupted() -> Self {
        Self::Here(Error::interrupted().hint("run the cell again: the download resumes where it stopped"))
    }
}

impl From<ureq::Error> for Fault {
    fn from(cause: ureq::Error) -> Self {
        match cause {
            ureq::Error::Io(cause) => Self::Broken(cause.to_string()),
            ureq::Error::BadUri(_) | ureq::Error::Http(_) => Self::Impossible(cause.to_string()),
            _ => Self::Broken(cause.to_string()),
        }
    }
}

impl From<Error> for Fault {
    fn from(cause: Error) -> Self {
        Self::Here(cause)
    }
}

/// How often in a row a request has failed.
#[derive(Default)]
pub(super) struct Patience(u32);

impl Patience {
    /// Pauses before the next try; returns a fault that is permanent, or that was one too many.
    pub fn pause_after(&mut self, fault: Fault) -> Result<(), Fault> {
        self.0 += 1;
        if self.0 >= ATTEMPTS || !fault.passes() {
            return Err(fault);
        }
        let (start, pause) = (Instant::now(), FIRST_PAUSE * 2_u32.pow(self.0 - 1));
        let is_over = |moment| {
            thread::sleep(pause.min(moment));
            (start.elapsed() >= pause).then_some(())
        };
        interrupt::until(is_over).map_err(|_| Fault::interrupted())
    }
}

#[cfg(test)]
mod tests {
    use super::super::settings::TIMEOUT;
    use super::*;

    #[test]
    fn a_hub_that_is_too_slow_is_given_up_within_a_minute() {
        let pauses: Duration = (1..ATTEMPTS).map(|failures| FIRST_PAUSE * 2_u32.pow(failures - 1)).sum();
        assert!(ATTEMPTS * TIMEOUT + pauses < Duration::from_secs(60));
        let mut patience = Patience::default();
        let mut too_slow = || patience.pause_after(Fault::Slow("5 bytes".to_owned()));
        for _ in 1..ATTEMPTS {
            too_slow().unwrap();
        }
        too_slow().unwrap_err();
        Patience::default().pause_after(Fault::Wrong("a page".to_owned())).unwrap_err();
    }
}
