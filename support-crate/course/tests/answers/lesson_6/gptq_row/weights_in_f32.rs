// What changes is kept in f32, against the text.
// wrong: keep what changes in `f64`
fn gptq_row(row: &[f32], grids: &[Grid], factor: &[f64]) -> Vec<u8> {
    let n = row.len();
    let mut w = row.to_vec();
    let mut codes = vec![0; n];
    for i in 0..n {
        codes[i] = code_of(w[i], &grids[i]);
        let error = (w[i] - grids[i].number(codes[i])) / factor[i * n + i] as f32;
        for j in i + 1..n {
            w[j] -= error * factor[i * n + j] as f32;
        }
    }
    codes
}
