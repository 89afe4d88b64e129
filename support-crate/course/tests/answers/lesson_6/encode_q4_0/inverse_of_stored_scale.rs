// The inverse of the scale as a float16 number.
// wrong: before it became a float16
fn encode_q4_0(numbers: &[f32]) -> Vec<u8> {
    let mut largest = 0.0f32;
    for &number in numbers {
        if number.abs() > largest.abs() {
            largest = number;
        }
    }
    let scale = largest / -8.0;
    let inverse = if scale != 0.0 { 1.0 / float16(scale) } else { 0.0 };
    let code = |number: f32| ((number * inverse + 8.5) as u8).min(15);
    let mut bytes = float16_bytes(scale).to_vec();
    bytes.extend((0..16).map(|i| code(numbers[i]) | code(numbers[i + 16]) << 4));
    bytes
}
