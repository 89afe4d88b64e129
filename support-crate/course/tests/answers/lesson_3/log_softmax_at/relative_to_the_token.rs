// Rewrites the formula as -ln of the sum of e^(z_j - z_id), which subtracts the token itself and not the maximum.
// wrong: or its inverse became infinite
fn log_softmax_at(logits: &[f32], id: u32) -> f64 {
    // p = e^z / sum e^z_j = 1 / sum e^(z_j - z)
    let own = f64::from(logits[id as usize]);
    -logits.iter().map(|&z| (f64::from(z) - own).exp()).sum::<f64>().ln()
}
