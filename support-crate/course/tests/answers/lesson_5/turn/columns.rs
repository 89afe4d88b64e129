// Turns columns: the rotation from the wrong side.
// wrong: of each row, the transform is missing
fn turn(rows: &mut [f32], signs: &[f32]) {
    let width = signs.len();
    for c in 0..width {
        let mut column: Vec<f32> =
            rows.iter().skip(c).step_by(width).map(|x| x * signs[c]).collect();
        hadamard(&mut column);
        for (r, x) in column.into_iter().enumerate() {
            rows[r * width + c] = x;
        }
    }
}
