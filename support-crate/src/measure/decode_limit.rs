//! How fast a model could decode if it did nothing but read its weights.

use std::fmt;

use serde::Serialize;

use super::Bandwidth;
use crate::error::{Error, Result};
use crate::model::Device;

/// The limit that memory sets to decoding one sequence: each new token takes reading all weights once.
///
/// Keys and values of earlier tokens are read too, and are left out here: a few percent for a short text.
/// A model that partly fits into the cache can go a little beyond the limit, and a batch shares one read
/// among its sequences.
///
/// Source: Williams, Waterman, Patterson 2009, "Roofline", doi:10.1145/1498765.1498785.
///
/// ```
/// use quantlab::measure::{DecodeLimit, memory_bandwidth};
///
/// let limit = DecodeLimit::new(497_759_232, &memory_bandwidth()?)?;
/// println!("{limit}; 20 tokens/s are {:.0}% of it", 100.0 * limit.fraction(20.0));
/// # Ok::<(), quantlab::error::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct DecodeLimit {
    /// Weights that are read for each token, in bytes.
    pub bytes_per_token: usize,
    /// The memory bandwidth, in 10^9 bytes per second.
    pub gb_per_s: f64,
}

impl DecodeLimit {
    /// The limit for a model that reads `bytes_per_token` bytes of weights for each token: all but the
    /// tables of which it reads only a row.
    ///
    /// # Errors
    /// No bytes, or a bandwidth that is not a positive number: there is no limit then.
    pub fn new(bytes_per_token: usize, bandwidth: &Bandwidth) -> Result<Self> {
        let gb_per_s = bandwidth.gb_per_s;
        if bytes_per_token == 0 || !(gb_per_s > 0.0 && gb_per_s.is_finite()) {
            return Err(Error::input(format!("{bytes_per_token} bytes per token at {gb_per_s} GB/s set no limit"))
                .hint("give the bytes of weights that are read for each token, and a measured bandwidth"));
        }
        Ok(Self { bytes_per_token, gb_per_s })
    }

    /// The limit on a device, if there is one. It is the processor's memory that was measured, so a GPU has none.
    pub fn on(device: Device, bytes_per_token: usize, bandwidth: &Bandwidth) -> Option<Self> {
        if device.is_cpu() { Self::new(bytes_per_token, bandwidth).ok() } else { None }
    }

    /// The most tokens per second.
    pub fn tokens_per_s(&self) -> f64 {
        self.gb_per_s * 1e9 / self.bytes_per_token as f64
    }

    /// The fraction of the limit that a measured rate reaches: 1 is all of it.
    pub fn fraction(&self, measured_tokens_per_s: f64) -> f64 {
        measured_tokens_per_s / self.tokens_per_s()
    }
}

impl fmt::Display for DecodeLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mib = self.bytes_per_token as f64 / (1024.0 * 1024.0);
        let (limit, gb_per_s) = (self.tokens_per_s(), self.gb_per_s);
        write!(f, "at most {limit:.1} tokens/s ({mib:.1} MiB per token at {gb_per_s:.1} GB/s)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Statistics;

    fn bandwidth(gb_per_s: f64) -> Bandwidth {
        let passes = Statistics::of(&[1.0]).unwrap();
        Bandwidth { gb_per_s, passes, threads: 2, buffer_bytes: 1 << 29 }
    }

    #[test]
    fn the_limit_is_bandwidth_over_bytes() {
        let limit = DecodeLimit::new(500_000_000, &bandwidth(29.0)).unwrap();
        assert!((limit.tokens_per_s() - 58.0).abs() < 1e-9);
        assert!((limit.fraction(29.0) - 0.5).abs() < 1e-12);
        assert_eq!(limit.to_string(), "at most 58.0 tokens/s (476.8 MiB per token at 29.0 GB/s)");
    }

    #[test]
    fn nothing_to_read_sets_no_limit() {
        assert!(DecodeLimit::new(0, &bandwidth(29.0)).is_err());
        for gb_per_s in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(DecodeLimit::new(1, &bandwidth(gb_per_s)).is_err());
        }
    }
}
