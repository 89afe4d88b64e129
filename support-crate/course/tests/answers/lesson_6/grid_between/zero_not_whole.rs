// A zero point that is no code, as HQQ has it.
// wrong: whole number
fn grid_between(low: f32, high: f32, bits: u32) -> Grid {
    let (low, high) = (low.min(0.0), high.max(0.0));
    let last = 2.0_f32.powi(bits as i32) - 1.0;
    let step = float16((high - low) / last);
    let step = if step > 0.0 { step } else { 1.0 };
    Grid { step, zero: (-low / step).min(last), last }
}
