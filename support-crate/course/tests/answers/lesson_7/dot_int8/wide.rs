// In 64 bits.
// right
#[inline(always)]
fn dot_int8(w: &[i8], x: &[i8]) -> i32 {
    w.iter().zip(x).map(|(w, x)| *w as i64 * *x as i64).sum::<i64>() as i32
}
