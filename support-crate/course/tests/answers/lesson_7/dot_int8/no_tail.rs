// What does not fill a chunk is left out.
// wrong: the last numbers, which do not fill a chunk, are missing
#[inline(always)]
fn dot_int8(w: &[i8], x: &[i8]) -> i32 {
    let mut sum = 0_i32;
    for (w, x) in w.chunks_exact(16).zip(x.chunks_exact(16)) {
        for i in 0..16 {
            sum = sum.wrapping_add(i32::from(w[i]) * i32::from(x[i]));
        }
    }
    sum
}
