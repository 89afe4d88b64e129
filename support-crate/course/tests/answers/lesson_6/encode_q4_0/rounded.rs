// Rounds and shifts, in double precision.
// right
fn encode_q4_0(numbers: &[f32]) -> Vec<u8> {
    let mut largest = numbers[0];
    for &x in numbers {
        if x.abs() > largest.abs() {
            largest = x;
        }
    }
    let d = largest as f64 / -8.0;
    let codes: Vec<u8> = numbers
        .iter()
        .map(|&x| if d == 0.0 { 8 } else { ((x as f64 / d).round() + 8.0).clamp(0.0, 15.0) as u8 })
        .collect();
    let mut block = float16_bytes(d as f32).to_vec();
    for i in 0..16 {
        block.push(codes[i] + 16 * codes[i + 16]);
    }
    block
}
