// The first row only.
// wrong: not only the first
fn turn(rows: &mut [f32], signs: &[f32]) {
    for row in rows.chunks_exact_mut(signs.len()).take(1) {
        row.iter_mut().zip(signs).for_each(|(x, sign)| *x *= sign);
        hadamard(row);
    }
}
