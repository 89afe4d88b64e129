// All signs first.
// right
fn turn(rows: &mut [f32], signs: &[f32]) {
    for i in 0..rows.len() {
        rows[i] = rows[i] * signs[i % signs.len()];
    }
    rows.chunks_mut(signs.len()).for_each(|row| hadamard(row));
}
