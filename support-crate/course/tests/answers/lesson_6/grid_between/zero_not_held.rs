// The zero point may be larger than the largest code, where float16 has few digits.
// wrong: is at most the largest code
fn grid_between(low: f32, high: f32, bits: u32) -> Grid {
    let (low, high) = (low.min(0.0), high.max(0.0));
    let last = ((1u32 << bits) - 1) as f32;
    let mut step = float16((high - low) / last);
    if step == 0.0 {
        step = 1.0;
    }
    Grid { step, zero: (-low / step).round_ties_even(), last }
}
