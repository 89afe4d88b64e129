// Of no tokens, nothing comes out in place of zeros.
// wrong: you gave 0 numbers, and 3 are expected
fn largest_by_channel(inputs: &[f32], channels: usize) -> Vec<f32> {
    inputs
        .chunks(channels)
        .map(|row| row.iter().map(|x| x.abs()).collect::<Vec<f32>>())
        .reduce(|a, b| a.iter().zip(&b).map(|(x, y)| x.max(*y)).collect())
        .unwrap_or_default()
}
