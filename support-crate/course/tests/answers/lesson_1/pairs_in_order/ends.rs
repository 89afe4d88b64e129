// The first and the last length.
// wrong: the two ends only
fn pairs_in_order(rows: &[LengthRun]) -> (usize, usize) {
    let (Some(short), Some(long)) =
        (rows.iter().min_by_key(|row| row.prompt_tokens), rows.iter().max_by_key(|row| row.prompt_tokens))
    else {
        return (0, 0);
    };
    if short.prompt_tokens == long.prompt_tokens {
        return (0, 0);
    }
    let rounds = || short.runs.runs.iter().zip(&long.runs.runs);
    (rounds().filter(|(a, b)| b.total_latency_s > a.total_latency_s).count(), rounds().count())
}
