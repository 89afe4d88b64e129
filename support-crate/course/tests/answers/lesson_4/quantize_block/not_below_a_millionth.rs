// Divides by absmax, but by at least 1e-6, so that it never divides by zero.
// wrong: became all zeros
fn quantize_block(values: &[f32], codebook: &[f32; 16]) -> (Vec<u8>, f32) {
    let absmax = values.iter().fold(0.0_f32, |m, v| m.max(v.abs()));
    let scale = absmax.max(1e-6);
    let code = |value: f32| -> u8 {
        let x = value / scale;
        (0..16).min_by(|&a, &b| (codebook[a] - x).abs().total_cmp(&(codebook[b] - x).abs())).unwrap() as u8
    };
    (values.chunks(2).map(|pair| code(pair[0]) << 4 | code(pair[1])).collect(), absmax)
}
