//! How often magnitudes occur, without keeping them.

/// Counts of magnitudes in bins of equal width. When a magnitude lies beyond the last bin, the width doubles,
/// as often as needed.
///
/// Widths are powers of two, so bins become wider without any being cut: the counts are exact, and do not
/// depend on the order in which magnitudes came.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Histogram {
    counts: Vec<u64>,
    width: f64,
}

/// A magnitude that a given share of all magnitudes does not exceed.
#[derive(Debug, PartialEq)]
pub(super) struct Percentile {
    /// The end of a bin.
    pub magnitude: f64,
    /// How many magnitudes lie beyond it.
    pub beyond: u64,
}

impl Histogram {
    /// With less than 2^11 bins, they end below the smallest float32 (2^-149).
    const NARROWEST: f64 = f64::from_bits((1023 - 160) << 52);

    /// No counts yet.
    pub fn new(bins: usize) -> Self {
        Self { counts: vec![0; bins], width: Self::NARROWEST }
    }

    /// Counts magnitudes, none of them larger than `largest`.
    pub fn add(&mut self, magnitudes: impl Iterator<Item = f32>, largest: f32) {
        self.widen(f64::from(largest));
        let per_width = 1.0 / self.width;
        magnitudes.for_each(|magnitude| self.counts[(f64::from(magnitude) * per_width) as usize] += 1);
    }

    fn widen(&mut self, largest: f64) {
        let mut factor = 1.0;
        while largest >= factor * self.width * self.counts.len() as f64 {
            factor *= 2.0;
        }
        if factor > 1.0 {
            for bin in 0..self.counts.len() {
                let count = std::mem::take(&mut self.counts[bin]);
                self.counts[(bin as f64 / factor) as usize] += count;
            }
            self.width *= factor;
        }
    }

    /// How many magnitudes were counted.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The end of the first bin up to which at least `percent` of all magnitudes lie.
    pub fn percentile(&self, percent: f64) -> Percentile {
        let may_be_beyond = self.total() as f64 * (100.0 - percent) / 100.0;
        let mut beyond = 0;
        for (bin, &count) in self.counts.iter().enumerate().rev() {
            if (beyond + count) as f64 > may_be_beyond {
                return Percentile { magnitude: (bin + 1) as f64 * self.width, beyond };
            }
            beyond += count;
        }
        Percentile { magnitude: 0.0, beyond }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(bins: usize, parts: &[&[f32]]) -> Histogram {
        let mut histogram = Histogram::new(bins);
        for part in parts {
            histogram.add(part.iter().copied(), part.iter().copied().fold(0.0, f32::max));
        }
        histogram
    }

    #[test]
    fn hundred_magnitudes() {
        let magnitudes: Vec<f32> = (1..=100).map(|i| i as f32 - 0.5).collect();
        let histogram = of(128, &[&magnitudes]);
        assert_eq!(histogram.percentile(100.0), Percentile { magnitude: 100.0, beyond: 0 });
        assert_eq!(histogram.percentile(99.0), Percentile { magnitude: 99.0, beyond: 1 });
        assert_eq!(histogram.percentile(50.0), Percentile { magnitude: 50.0, beyond: 50 });
    }

    #[test]
    fn the_extremes_of_float32_and_nothing_at_all() {
        let smallest = f32::from_bits(1);
        let histogram = of(2048, &[&[0.0], &[smallest], &[f32::MAX], &[0.0]]);
        assert_eq!(histogram.total(), 4);
        assert!(histogram.percentile(100.0).magnitude >= f64::from(f32::MAX));
        assert_eq!(histogram.percentile(75.0).beyond, 1);
        assert_eq!(of(16, &[&[]]).percentile(99.0), Percentile { magnitude: 0.0, beyond: 0 });
    }

    proptest! {
        #[test]
        fn the_order_does_not_matter(mut magnitudes in prop::collection::vec(1e-6..1e6_f32, 1..100), cut in 0..100_usize) {
            let whole = of(64, &[&magnitudes]);
            let (first, second) = magnitudes.split_at(cut.min(magnitudes.len()));
            prop_assert_eq!(&of(64, &[first, second]), &whole);
            magnitudes.sort_by(f32::total_cmp);
            let one_by_one: Vec<&[f32]> = magnitudes.chunks(1).collect();
            prop_assert_eq!(&of(64, &one_by_one), &whole);
        }

        #[test]
        fn a_percentile_is_what_it_says_to_a_bin(
            mut magnitudes in prop::collection::vec(0.0..1e3_f32, 1..200),
            percent in 0.1..=100.0_f64,
        ) {
            let histogram = of(256, &[&magnitudes]);
            let Percentile { magnitude, beyond } = histogram.percentile(percent);
            magnitudes.sort_by(f32::total_cmp);
            let larger = magnitudes.iter().filter(|&&value| f64::from(value) >= magnitude).count();
            prop_assert_eq!(larger as u64, beyond);
            prop_assert!(beyond as f64 <= magnitudes.len() as f64 * (100.0 - percent) / 100.0);
            // One bin less would leave too many out.
            let wider = magnitudes.iter().filter(|&&value| f64::from(value) >= magnitude - histogram.width).count();
            prop_assert!(wider as f64 > magnitudes.len() as f64 * (100.0 - percent) / 100.0);
        }
    }
}
