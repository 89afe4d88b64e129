// With iterators, in double precision.
// right
fn clipped_grid(weights: &[f32], bits: u32, parts: &[f32]) -> Grid {
    let low = weights.iter().copied().fold(0.0, f32::min);
    let high = weights.iter().copied().fold(0.0, f32::max);
    let error = |grid: &Grid| -> f64 {
        let off = |w: f32| (grid.number(code_of(w, grid)) - w) as f64;
        weights.iter().map(|w| off(*w) * off(*w)).sum()
    };
    let grids = parts.iter().map(|part| grid_between(part * low, part * high, bits));
    grids.min_by(|a, b| error(a).total_cmp(&error(b))).unwrap()
}
