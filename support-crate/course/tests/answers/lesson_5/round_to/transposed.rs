// Columns by way of a transposed copy; a helper within does a group.
// right
fn round_to(x: &[f32], columns: usize, per: Per, bits: u32) -> Vec<f32> {
    fn group(numbers: &[f32], levels: f32) -> Vec<f32> {
        let peak = numbers.iter().fold(0.0f32, |peak, x| peak.max(x.abs()));
        if peak == 0.0 {
            return numbers.to_vec();
        }
        let step = peak / levels;
        numbers.iter().map(|x| (x / step).round() * step).collect()
    }
    fn transposed(x: &[f32], columns: usize) -> Vec<f32> {
        (0..columns).flat_map(|c| x.iter().skip(c).step_by(columns).copied()).collect()
    }
    let levels = (2.0f32).powi(bits as i32 - 1) - 1.0;
    match per {
        Per::Tensor => group(x, levels),
        Per::Row => x.chunks(columns).flat_map(|row| group(row, levels)).collect(),
        Per::Column => {
            let rows = x.len() / columns;
            if rows == 0 {
                return vec![];
            }
            let turned: Vec<f32> = transposed(x, columns)
                .chunks(rows)
                .flat_map(|column| group(column, levels))
                .collect();
            transposed(&turned, rows)
        }
    }
}
