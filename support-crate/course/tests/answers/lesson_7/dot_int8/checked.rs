// With the checks of `+`: right, and slow.
// right
#[inline(always)]
fn dot_int8(w: &[i8], x: &[i8]) -> i32 {
    w.iter().zip(x).map(|(w, x)| i32::from(*w) * i32::from(*x)).sum()
}
