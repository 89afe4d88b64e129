// As in the notebook.
// right
#[inline(always)]
fn dot_int8(w: &[i8], x: &[i8]) -> i32 {
    let products = w.iter().zip(x).map(|(w, x)| i32::from(*w) * i32::from(*x));
    products.fold(0, i32::wrapping_add)
}
