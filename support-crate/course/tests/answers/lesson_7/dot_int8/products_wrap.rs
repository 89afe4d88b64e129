// Products in int8 that wrap.
// wrong: do not fit into int8
#[inline(always)]
fn dot_int8(w: &[i8], x: &[i8]) -> i32 {
    w.iter().zip(x).fold(0, |sum, (w, x)| sum + i32::from(w.wrapping_mul(*x)))
}
