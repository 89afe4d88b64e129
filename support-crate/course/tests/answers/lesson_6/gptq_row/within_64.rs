// Only columns of the same group of 64 make up for an error.
// wrong: gptq_row of 130 columns
fn gptq_row(row: &[f32], grids: &[Grid], factor: &[f64]) -> Vec<u8> {
    let n = row.len();
    let mut w: Vec<f64> = row.iter().map(|&w| f64::from(w)).collect();
    let mut codes = vec![0; n];
    for i in 0..n {
        codes[i] = code_of(w[i] as f32, &grids[i]);
        let error = (w[i] - f64::from(grids[i].number(codes[i]))) / factor[i * n + i];
        let end = ((i / 64 + 1) * 64).min(n);
        for j in i + 1..end {
            w[j] -= error * factor[i * n + j];
        }
    }
    codes
}
