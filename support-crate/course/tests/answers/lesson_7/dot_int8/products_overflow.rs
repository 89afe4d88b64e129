// Products in int8.
// wrong: it panicked
#[inline(always)]
fn dot_int8(w: &[i8], x: &[i8]) -> i32 {
    w.iter().zip(x).map(|(w, x)| i32::from(w * x)).sum()
}
