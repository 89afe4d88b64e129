// Scans all sixteen numbers in f64 with <=, so that of two equally near ones the later code wins.
// right
fn quantize_block(values: &[f32], codebook: &[f32; 16]) -> (Vec<u8>, f32) {
    let mut absmax = 0.0_f32;
    for v in values {
        absmax = absmax.max(v.abs());
    }
    let nearest = |v: f32| -> u8 {
        let scaled = if absmax == 0.0 { 0.0 } else { v as f64 / absmax as f64 };
        let mut best_code = 0;
        let mut best_distance = f64::INFINITY;
        for c in 0..16 {
            let distance = (codebook[c] as f64 - scaled).abs();
            if distance <= best_distance {
                best_distance = distance;
                best_code = c;
            }
        }
        best_code as u8
    };
    let mut packed = Vec::new();
    let mut i = 0;
    while i + 1 < values.len() {
        packed.push(nearest(values[i]) * 16 + nearest(values[i + 1]));
        i += 2;
    }
    (packed, absmax)
}
