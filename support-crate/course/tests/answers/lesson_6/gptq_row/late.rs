// Each column takes all errors before it, in float32.
// right
fn gptq_row(row: &[f32], grids: &[Grid], factor: &[f64]) -> Vec<u8> {
    let n = row.len();
    let mut errors: Vec<f64> = vec![];
    let mut codes = vec![];
    for i in 0..n {
        let due: f64 = errors.iter().enumerate().map(|(k, e)| e * factor[k * n + i]).sum();
        let now = row[i] - due as f32;
        let code = code_of(now, &grids[i]);
        errors.push((now - grids[i].number(code)) as f64 / factor[i * n + i]);
        codes.push(code);
    }
    codes
}
