// Compares squared distances and collects codes first.
// right
fn quantize_block(values: &[f32], codebook: &[f32; 16]) -> (Vec<u8>, f32) {
    let absmax = values.iter().map(|v| v.abs()).fold(0.0, f32::max);
    let scale = if absmax == 0.0 { 1.0 } else { absmax };
    let mut codes = Vec::new();
    for v in values {
        let mut best = 0;
        for (c, q) in codebook.iter().enumerate() {
            let (d, e) = (q - v / scale, codebook[best] - v / scale);
            if d * d < e * e { best = c; }
        }
        codes.push(best as u8);
    }
    let mut packed = Vec::new();
    while packed.len() * 2 < codes.len() {
        let i = packed.len() * 2;
        packed.push((codes[i] << 4) ^ codes[i + 1]);
    }
    (packed, absmax)
}
