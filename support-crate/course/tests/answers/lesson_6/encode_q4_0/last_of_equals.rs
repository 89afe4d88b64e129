// `max_by` gives the last of equal magnitudes.
// wrong: the first counts
fn encode_q4_0(numbers: &[f32]) -> Vec<u8> {
    let largest = *numbers.iter().max_by(|a, b| a.abs().total_cmp(&b.abs())).unwrap();
    let scale = largest / -8.0;
    let inverse = if scale != 0.0 { 1.0 / scale } else { 0.0 };
    let code = |number: f32| ((number * inverse + 8.5) as u8).min(15);
    let mut bytes = float16_bytes(scale).to_vec();
    bytes.extend((0..16).map(|i| code(numbers[i]) | code(numbers[i + 16]) << 4));
    bytes
}
