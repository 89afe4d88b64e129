// Sorts the squares, and adds them up from the smallest.
// right
fn peak_to_rms(x: &[f32]) -> f64 {
    let mut squares: Vec<f64> = x.iter().map(|&x| f64::from(x) * f64::from(x)).collect();
    squares.sort_by(f64::total_cmp);
    match squares.last() {
        Some(&largest) if largest > 0.0 => {
            (largest / (squares.iter().sum::<f64>() / squares.len() as f64)).sqrt()
        }
        _ => 0.0,
    }
}
