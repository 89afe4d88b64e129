//! When requests come.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::Request;
use crate::error::{Error, Result};

/// Requests that come independently of each other, `rate_per_s` of them a second on average (a Poisson process): times
/// between two are exponential, from a seed. The first comes after such a time, too.
///
/// ```
/// use quantlab::generate::GenerateOptions;
/// use quantlab::serve::{Request, poisson_arrivals};
///
/// let request = Request { prompt: vec![1, 2, 3], options: GenerateOptions::default() };
/// let arrivals = poisson_arrivals(4.0, 7, vec![request; 1000])?;
/// let (last, _) = arrivals[999];
/// assert!((last / 250.0 - 1.0).abs() < 0.15, "1000 at 4 a second: {last} s");
/// # Ok::<(), quantlab::error::Error>(())
/// ```
///
/// # Errors
/// A rate that is not a finite number above 0.
pub fn poisson_arrivals(
    rate_per_s: f64,
    seed: u64,
    requests: impl IntoIterator<Item = Request>,
) -> Result<Vec<(f64, Request)>> {
    if !(rate_per_s > 0.0 && rate_per_s.is_finite()) {
        return Err(Error::input(format!("a rate of {rate_per_s} requests a second; it must be above 0 and finite")));
    }
    let (mut rng, mut at) = (StdRng::seed_from_u64(seed), 0.0);
    let arrive = |request| {
        // From 0 (included) to 1 (not): the logarithm is finite.
        let uniform: f64 = rng.random();
        at -= (1.0 - uniform).ln() / rate_per_s;
        (at, request)
    };
    Ok(requests.into_iter().map(arrive).collect())
}
