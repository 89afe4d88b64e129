// The least error begins at 1, so groups of large weights keep the first grid.
// wrong: of 100 weights
fn clipped_grid(weights: &[f32], bits: u32, parts: &[f32]) -> Grid {
    let low = weights.iter().copied().fold(0.0, f32::min);
    let high = weights.iter().copied().fold(0.0, f32::max);
    let mut best = grid_between(low * parts[0], high * parts[0], bits);
    let mut least = 1.0;
    for part in parts {
        let grid = grid_between(low * part, high * part, bits);
        let error: f32 = weights.iter().map(|&w| (w - grid.number(code_of(w, &grid))).powi(2)).sum();
        if error < least {
            least = error;
            best = grid;
        }
    }
    best
}
