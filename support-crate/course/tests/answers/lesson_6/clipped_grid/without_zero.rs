// Limits that leave out 0.
// wrong: clipped_grid of
fn clipped_grid(weights: &[f32], bits: u32, parts: &[f32]) -> Grid {
    let low = weights.iter().copied().fold(f32::INFINITY, f32::min);
    let high = weights.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let (mut best, mut least) = (Grid::default(), f32::INFINITY);
    for part in parts {
        let grid = Grid { step: float16((part * high - part * low) / (2f32.powi(bits as i32) - 1.0)).max(1e-6), ..grid_between(part * low, part * high, bits) };
        let change = |weight: &f32| grid.number(code_of(*weight, &grid)) - weight;
        let error = weights.iter().map(|weight| change(weight).powi(2)).sum();
        if error < least {
            (best, least) = (grid, error);
        }
    }
    best
}
