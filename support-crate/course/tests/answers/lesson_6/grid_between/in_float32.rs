// The step as it comes.
// wrong: rounded to float16
fn grid_between(low: f32, high: f32, bits: u32) -> Grid {
    let (low, high) = (low.min(0.0), high.max(0.0));
    let last = 2.0_f32.powi(bits as i32) - 1.0;
    let step = (high - low) / last;
    let step = if step > 0.0 { step } else { 1.0 };
    Grid { step, zero: (-low / step).round().min(last), last }
}
