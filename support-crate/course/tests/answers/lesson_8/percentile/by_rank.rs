// Without sorting: finds what has a given rank, by counting.
// right
fn percentile(values: &[f64], percent: f64) -> f64 {
    let ranked = |rank: usize| {
        values
            .iter()
            .enumerate()
            .find(|(i, value)| {
                let below = values.iter().enumerate().filter(|(j, v)| v < value || v == value && j < i).count();
                below == rank
            })
            .map(|(_, value)| *value)
            .unwrap()
    };
    let last = values.len() - 1;
    let at = last as f64 * percent / 100.0;
    let rank = (at as usize).min(last);
    let part = at - rank as f64;
    if rank == last { ranked(last) } else { ranked(rank) * (1.0 - part) + ranked(rank + 1) * part }
}
