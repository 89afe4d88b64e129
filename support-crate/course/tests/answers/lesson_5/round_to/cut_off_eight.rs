// Cuts off, and 127 steps, always.
// wrong: `bits` is not always 8
fn round_to(x: &[f32], columns: usize, per: Per, bits: u32) -> Vec<f32> {
    let last = 127.0_f32;
    let group = |i: usize| match per {
        Per::Tensor => 0,
        Per::Row => i / columns,
        Per::Column => i % columns,
    };
    let mut largest = vec![0.0_f32; x.len()];
    for (i, x) in x.iter().enumerate() {
        largest[group(i)] = largest[group(i)].max(x.abs());
    }
    let round = |(i, x): (usize, &f32)| {
        let step = largest[group(i)] / last;
        if step > 0.0 { (x / step).trunc() * step } else { 0.0 }
    };
    x.iter().enumerate().map(round).collect()
}
