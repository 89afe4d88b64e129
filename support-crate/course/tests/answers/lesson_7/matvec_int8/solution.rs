// As in the notebook.
// right
fn matvec_int8(values: &[i8], scales: &[f32], x: &[f32], y: &mut [f32]) {
    if x.iter().any(|x| !x.is_finite()) {
        y.fill(f32::NAN);
        return;
    }
    let largest = x.iter().fold(0.0_f32, |largest, x| largest.max(x.abs()));
    let scale = if largest > 0.0 { largest / 127.0 } else { 1.0 };
    let inputs: Vec<i8> = x.iter().map(|x| (x / scale).round() as i8).collect();
    for ((row, row_scale), y) in values.chunks_exact(x.len()).zip(scales).zip(y) {
        *y = dot_int8_vectors(row, &inputs) as f32 * row_scale * scale;
    }
}
