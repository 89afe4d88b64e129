// As in the solution.
// right
fn turn(rows: &mut [f32], signs: &[f32]) {
    for row in rows.chunks_exact_mut(signs.len()) {
        row.iter_mut().zip(signs).for_each(|(x, sign)| *x *= sign);
        hadamard(row);
    }
}
