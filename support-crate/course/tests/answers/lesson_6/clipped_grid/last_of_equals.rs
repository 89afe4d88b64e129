// Sorts for the limits, goes through the parts from the last, and takes a later one if it is as good.
// right
fn clipped_grid(weights: &[f32], bits: u32, parts: &[f32]) -> Grid {
    let mut sorted = weights.to_vec();
    sorted.sort_by(f32::total_cmp);
    let (low, high) = (sorted[0], sorted[sorted.len() - 1]);
    let mut found: Option<(f32, Grid)> = None;
    for part in parts.iter().rev() {
        let grid = grid_between(part * low, part * high, bits);
        let mut error = 0.0;
        for weight in weights {
            let off = grid.number(code_of(*weight, &grid)) - weight;
            error += off * off;
        }
        match &found {
            Some((least, _)) if *least < error => {}
            _ => found = Some((error, grid)),
        }
    }
    found.expect("a part").1
}
