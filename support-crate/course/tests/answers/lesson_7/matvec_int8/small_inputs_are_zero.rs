// Inputs below 1e-6 count as 0.
// wrong: a matrix (
fn matvec_int8(values: &[i8], scales: &[f32], x: &[f32], y: &mut [f32]) {
    if x.iter().any(|x| !x.is_finite()) {
        return y.fill(f32::NAN);
    }
    let s_x = x.iter().map(|x| x.abs()).fold(0.0, f32::max) / 127.0;
    if s_x < 1e-6 {
        return y.fill(0.0);
    }
    let q: Vec<i8> = x.iter().map(|x| (x / s_x).round() as i8).collect();
    for (r, y) in y.iter_mut().enumerate() {
        *y = dot_int8_vectors(&values[r * x.len()..(r + 1) * x.len()], &q) as f32 * scales[r] * s_x;
    }
}
