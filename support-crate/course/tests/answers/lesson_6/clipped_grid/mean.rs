// By the mean, with a list of pairs; limits by sorting.
// right
fn clipped_grid(weights: &[f32], bits: u32, parts: &[f32]) -> Grid {
    let mut sorted = weights.to_vec();
    sorted.sort_by(f32::total_cmp);
    let (low, high) = (sorted[0], sorted[sorted.len() - 1]);
    let mut found: Vec<(f32, Grid)> = Vec::new();
    for &part in parts {
        // grid_between brings 0 in.
        let grid = grid_between(low.min(0.0) * part, high.max(0.0) * part, bits);
        let sum: f32 = sorted.iter().map(|&w| (w - grid.number(code_of(w, &grid))).powi(2)).sum();
        found.push((sum / sorted.len() as f32, grid));
    }
    found.into_iter().reduce(|a, b| if b.0 < a.0 { b } else { a }).unwrap().1
}
