// Signs afterwards.
// wrong: the signs come before
fn turn(rows: &mut [f32], signs: &[f32]) {
    for row in rows.chunks_exact_mut(signs.len()) {
        hadamard(row);
        row.iter_mut().zip(signs).for_each(|(x, sign)| *x *= sign);
    }
}
