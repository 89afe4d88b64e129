//! How fast a model could decode if it did nothing but read its weights.

use std::fmt;

use serde::Serialize;

/// The limit that memory sets to decoding one sequence: each new token takes reading all weights once.
///
/// Keys and values of earlier tokens are read too, and are left out here: a few percent for a short text.
/// A model that partly fits into the cache can go a little beyond the limit, and a batch shares one read
/// among its sequences.
///
/// Source: Williams, Waterman, Patterson 2009, "Roofline", doi:10.1145/1498765.1498785.
///
/// ```
/// use quantlab::measure::{DecodeLimit, MemoryReader};
///
/// let limit = DecodeLimit { bytes_per_token: 497_759_232, gb_per_s: MemoryReader::new()?.gb_per_s() };
/// println!("{limit}; 20 tokens/s are {:.0}% of it", 100.0 * limit.fraction(20.0));
/// # Ok::<(), quantlab::error::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct DecodeLimit {
    /// Weights that are read for each token, in bytes: all but the tables of which a step reads only a row.
    pub bytes_per_token: usize,
    /// The memory bandwidth, in 10^9 bytes per second.
    pub gb_per_s: f64,
}

impl DecodeLimit {
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
        let (limit, mb, gb_per_s) = (self.tokens_per_s(), 1e-6 * self.bytes_per_token as f64, self.gb_per_s);
        write!(f, "at most {limit:.1} tokens/s ({mb:.1} MB per token at {gb_per_s:.1} GB/s)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_bandwidth_over_bytes() {
        let limit = DecodeLimit { bytes_per_token: 500_000_000, gb_per_s: 29.0 };
        assert!((limit.tokens_per_s() - 58.0).abs() < 1e-9);
        assert!((limit.fraction(29.0) - 0.5).abs() < 1e-12);
        assert_eq!(limit.to_string(), "at most 58.0 tokens/s (500.0 MB per token at 29.0 GB/s)");
    }
}
