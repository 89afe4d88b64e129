// All rows as one.
// wrong: each row by itself
fn turn(rows: &mut [f32], signs: &[f32]) {
    rows.iter_mut().zip(signs.iter().cycle()).for_each(|(x, sign)| *x *= sign);
    hadamard(rows);
}
