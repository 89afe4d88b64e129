// Codes alone.
// wrong: you gave 16 numbers
fn encode_q4_0(numbers: &[f32]) -> Vec<u8> {
    let larger = |a: f32, b: f32| if b.abs() > a.abs() { b } else { a };
    let scale = numbers.iter().copied().fold(0.0, larger) / -8.0;
    let inverse = if scale == 0.0 { 0.0 } else { 1.0 / scale };
    let code = |number: f32| ((number * inverse + 8.5) as u8).min(15);
    let (firsts, seconds) = numbers.split_at(16);
    let halves = firsts.iter().zip(seconds).map(|(low, high)| code(*low) | code(*high) << 4);
    halves.collect()
}
