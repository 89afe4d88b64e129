// A step below 1e-6 counts as 0, as an epsilon against division by 0.
// wrong: the step is 1, expected
fn grid_between(low: f32, high: f32, bits: u32) -> Grid {
    let (low, high) = (low.min(0.0), high.max(0.0));
    let last = ((1u32 << bits) - 1) as f32;
    let mut step = float16((high - low) / last);
    if step < 1e-6 {
        step = 1.0;
    }
    Grid { step, zero: (-low / step).round_ties_even().min(last), last }
}
