// Sixteen sums.
// right
#[inline(always)]
fn dot_int8(w: &[i8], x: &[i8]) -> i32 {
    let mut sums = [0_i32; 16];
    for (i, (w, x)) in w.iter().zip(x).enumerate() {
        sums[i % 16] = sums[i % 16].wrapping_add(*w as i32 * *x as i32);
    }
    sums.into_iter().fold(0, i32::wrapping_add)
}
