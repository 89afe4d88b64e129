// Binary search among the sums.
// right
fn draw(probabilities: &[f64], uniform: f64) -> u32 {
    let sums: Vec<f64> = probabilities
        .iter()
        .scan(0.0, |sum, p| {
            *sum += p;
            Some(*sum)
        })
        .collect();
    let last = probabilities.iter().rposition(|p| *p > 0.0).unwrap();
    sums.partition_point(|sum| *sum <= uniform).min(last) as u32
}
