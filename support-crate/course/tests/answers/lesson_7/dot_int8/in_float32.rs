// A sum in float32.
// wrong: that is the sum in float32
#[inline(always)]
fn dot_int8(w: &[i8], x: &[i8]) -> i32 {
    w.iter().zip(x).map(|(w, x)| f32::from(*w) * f32::from(*x)).sum::<f32>() as i32
}
