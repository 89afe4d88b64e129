// Codes of weights that were divided by the part.
// wrong: smaller squared error
fn clipped_grid(weights: &[f32], bits: u32, parts: &[f32]) -> Grid {
    let low = weights.iter().copied().fold(0.0, f32::min);
    let high = weights.iter().copied().fold(0.0, f32::max);
    let (mut best, mut least) = (Grid::default(), f32::INFINITY);
    for part in parts {
        let grid = grid_between(part * low, part * high, bits);
        let change = |weight: &f32| grid.number(code_of(*weight / part, &grid)) - weight;
        let error = weights.iter().map(|weight| change(weight).powi(2)).sum();
        if error < least {
            (best, least) = (grid, error);
        }
    }
    best
}
