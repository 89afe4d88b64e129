// Neighbours share a byte.
// wrong: not neighbours
fn encode_q4_0(numbers: &[f32]) -> Vec<u8> {
    let larger = |a: f32, b: f32| if b.abs() > a.abs() { b } else { a };
    let scale = numbers.iter().copied().fold(0.0, larger) / -8.0;
    let inverse = if scale == 0.0 { 0.0 } else { 1.0 / scale };
    let code = |number: f32| ((number * inverse + 8.5) as u8).min(15);
    let halves = numbers.chunks(2).map(|pair| code(pair[0]) | code(pair[1]) << 4);
    float16_bytes(scale).into_iter().chain(halves).collect()
}
