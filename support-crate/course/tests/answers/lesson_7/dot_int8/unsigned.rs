// Without their signs.
// wrong: int8 numbers have a sign
#[inline(always)]
fn dot_int8(w: &[i8], x: &[i8]) -> i32 {
    w.iter().zip(x).fold(0_i32, |sum, (w, x)| sum.wrapping_add(i32::from(*w as u8) * i32::from(*x as u8)))
}
