// Each column gathers the errors of those before it, instead of being changed by them.
// right
fn gptq_row(row: &[f32], grids: &[Grid], factor: &[f64]) -> Vec<u8> {
    let n = row.len();
    let mut errors: Vec<f64> = Vec::with_capacity(n);
    let mut codes = Vec::with_capacity(n);
    for j in 0..n {
        let undone: f64 = errors.iter().enumerate().map(|(i, error)| error * factor[i * n + j]).sum();
        let weight = f64::from(row[j]) - undone;
        let code = code_of(weight as f32, &grids[j]);
        errors.push((weight - f64::from(grids[j].number(code))) / factor[j * n + j]);
        codes.push(code);
    }
    codes
}
