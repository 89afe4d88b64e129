// Searches the codes 0..15, which in Rust ends at 14.
// wrong: is nearer
fn quantize_block(values: &[f32], codebook: &[f32; 16]) -> (Vec<u8>, f32) {
    let absmax = values.iter().fold(0.0_f32, |m, v| m.max(v.abs()));
    let mut packed = vec![];
    for pair in values.chunks(2) {
        let mut byte = 0_u8;
        for v in pair {
            let x = if absmax > 0.0 { v / absmax } else { 0.0 };
            let mut code = 0;
            for c in 0..15 {
                if (codebook[c] - x).abs() < (codebook[code] - x).abs() {
                    code = c;
                }
            }
            byte = byte << 4 | code as u8;
        }
        packed.push(byte);
    }
    (packed, absmax)
}
