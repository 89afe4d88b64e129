// Tokens with tokens.
// wrong: numbers, and
fn hessian(inputs: &[f32], columns: usize) -> Vec<f64> {
    let mut sums = vec![0.0; columns * columns];
    let columns = inputs.len() / columns;
    let mut sums = vec![0.0; columns * columns];
    for x in inputs.chunks_exact(columns) {
        for (row, x_i) in sums.chunks_exact_mut(columns).zip(x) {
            let twice = 2.0 * f64::from(*x_i);
            row.iter_mut().zip(x).for_each(|(sum, x_j)| *sum += twice * f64::from(*x_j));
        }
    }
    let diagonal = || (0..columns).map(|i| i * columns + i);
    let damping = 0.01 * diagonal().map(|at| sums[at]).sum::<f64>() / columns as f64;
    diagonal().for_each(|at| sums[at] += damping);
    sums
}
