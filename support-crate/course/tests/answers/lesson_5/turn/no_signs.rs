// No signs.
// wrong: the signs are missing
fn turn(rows: &mut [f32], signs: &[f32]) {
    rows.chunks_exact_mut(signs.len()).for_each(hadamard);
}
