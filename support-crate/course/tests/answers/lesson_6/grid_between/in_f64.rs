// In double precision, with if.
// right
fn grid_between(low: f32, high: f32, bits: u32) -> Grid {
    let low = if low > 0.0 { 0.0 } else { low as f64 };
    let high = if high < 0.0 { 0.0 } else { high as f64 };
    let last = ((1u32 << bits) - 1) as f64;
    let mut step = float16(((high - low) / last) as f32);
    if step == 0.0 {
        step = 1.0;
    }
    let mut zero = (-low / step as f64).round();
    if zero > last {
        zero = last;
    }
    Grid { step, zero: zero as f32, last: last as f32 }
}
