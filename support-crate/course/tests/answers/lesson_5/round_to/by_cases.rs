// Each case by itself.
// right
fn round_to(x: &[f32], columns: usize, per: Per, bits: u32) -> Vec<f32> {
    let last = ((1u32 << (bits - 1)) - 1) as f32;
    let absmax = |v: &mut dyn Iterator<Item = f32>| v.fold(0.0f32, |a, b| a.max(b.abs()));
    let q = |v: f32, most: f32| {
        if most == 0.0 {
            return 0.0;
        }
        let step = most / last;
        (v / step).round() * step
    };
    match per {
        Per::Tensor => {
            let m = absmax(&mut x.iter().copied());
            x.iter().map(|&v| q(v, m)).collect()
        }
        Per::Row => x
            .chunks(columns)
            .flat_map(|row| {
                let m = absmax(&mut row.iter().copied());
                row.iter().map(|&v| q(v, m)).collect::<Vec<_>>()
            })
            .collect(),
        Per::Column => {
            let m: Vec<f32> = (0..columns).map(|c| absmax(&mut x.iter().skip(c).step_by(columns).copied())).collect();
            x.iter().enumerate().map(|(i, &v)| q(v, m[i % columns])).collect()
        }
    }
}
