// With indices.
// right
fn gptq_row(row: &[f32], grids: &[Grid], factor: &[f64]) -> Vec<u8> {
    let n = row.len();
    let mut w: Vec<f64> = row.iter().map(|&x| x as f64).collect();
    let mut codes = vec![0u8; n];
    for i in 0..n {
        codes[i] = code_of(w[i] as f32, &grids[i]);
        let q = grids[i].number(codes[i]) as f64;
        let e = (w[i] - q) / factor[i * n + i];
        for j in (i + 1)..n {
            w[j] -= e * factor[i * n + j];
        }
    }
    codes
}
