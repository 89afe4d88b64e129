// A sum of 16 bits.
// wrong: the sum does not fit into 16 bits
#[inline(always)]
fn dot_int8(w: &[i8], x: &[i8]) -> i32 {
    w.iter().zip(x).fold(0_i16, |sum, (w, x)| sum.wrapping_add(i16::from(*w) * i16::from(*x))).into()
}
