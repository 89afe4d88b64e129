// Reads the factor down.
// wrong: by row i of the factor
fn gptq_row(row: &[f32], grids: &[Grid], factor: &[f64]) -> Vec<u8> {
    let n = row.len();
    let mut left: Vec<f64> = row.iter().map(|weight| f64::from(*weight)).collect();
    let mut codes = Vec::with_capacity(n);
    for (i, (u, grid)) in factor.chunks_exact(n).zip(grids).enumerate() {
        let code = code_of(left[i] as f32, grid);
        let error = (left[i] - f64::from(grid.number(code))) / u[i];
        for j in i + 1..n {
            left[j] -= error * factor[j * n + i];
        }
        codes.push(code);
    }
    codes
}
