// The number of codes does not fit a byte with 8 bits.
// wrong: grid_between(-0.71, 1.13, 8)
fn grid_between(low: f32, high: f32, bits: u32) -> Grid {
    let (low, high) = (low.min(0.0), high.max(0.0));
    let last = (2u8.wrapping_pow(bits).wrapping_sub(1) & 0x7f) as f32;
    let mut step = float16((high - low) / last);
    if step == 0.0 {
        step = 1.0;
    }
    Grid { step, zero: (-low / step).round_ties_even().min(last), last }
}
