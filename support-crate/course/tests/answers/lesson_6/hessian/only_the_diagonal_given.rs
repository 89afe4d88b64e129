// Gives the diagonal alone.
// wrong: numbers, and
fn hessian(inputs: &[f32], columns: usize) -> Vec<f64> {
    let mut sums = vec![0.0; columns * columns];
    for x in inputs.chunks_exact(columns) {
        for (row, x_i) in sums.chunks_exact_mut(columns).zip(x) {
            let twice = 2.0 * f64::from(*x_i);
            let at = x.iter().position(|x| std::ptr::eq(x, x_i)).unwrap();
            row[at] += twice * f64::from(*x_i);
        }
    }
    let diagonal = || (0..columns).map(|i| i * columns + i);
    let damping = 0.01 * diagonal().map(|at| sums[at]).sum::<f64>() / columns as f64;
    diagonal().for_each(|at| sums[at] += damping);
    diagonal().map(|at| sums[at]).collect()
}
