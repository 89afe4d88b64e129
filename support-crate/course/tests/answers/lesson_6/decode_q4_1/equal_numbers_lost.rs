// A scale of 0 gives zeros, whatever the minimum is.
// wrong: a block of Q4_1: number 0 is 0
fn decode_q4_1(block: &[u8]) -> Vec<f32> {
    let scale = from_float16([block[0], block[1]]);
    let minimum = from_float16([block[2], block[3]]);
    if scale == 0.0 {
        return vec![0.0; 32];
    }
    let low = block[4..20].iter().map(|byte| byte & 15);
    let high = block[4..20].iter().map(|byte| byte >> 4);
    low.chain(high).map(|code| scale * f32::from(code) + minimum).collect()
}
